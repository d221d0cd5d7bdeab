"""The cluster's DNS: CoreDNS as a daemon of the node, and the objects that make it the Service `kube-dns`."""

from pathlib import Path
from typing import Any

from headrace_local.binaries import Binaries
from headrace_local.network import Addresses
from headrace_local.pki import CLUSTER_DOMAIN, DNS_USER

READY_PORT = 8181

_COREFILE = """\
.:53 {{
    bind {node}
    errors
    health 127.0.0.1:8080
    ready {node}:{ready_port}
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 5
    }}
    cache 5
}}
"""


def dns_command(binaries: Binaries, addresses: Addresses, kubeconfig: Path, directory: Path) -> list[str]:
    """Write the Corefile and return CoreDNS's command line."""
    corefile = directory / "Corefile"
    values = {
        "node": addresses.node,
        "ready_port": READY_PORT,
        "domain": CLUSTER_DOMAIN,
        "kubeconfig": kubeconfig,
    }
    corefile.write_text(_COREFILE.format(**values))
    return [str(binaries["coredns"]), "-conf", str(corefile)]


def dns_objects(addresses: Addresses) -> list[dict[str, Any]]:
    """The Service, its one endpoint, and the right of the DNS server to read what it answers from."""
    ports = [("dns", "UDP"), ("dns-tcp", "TCP")]
    metadata = {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": str(addresses.dns_service),
            "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in ports],
        },
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in ports],
        "endpoints": [{"addresses": [str(addresses.node)], "conditions": {"ready": True}}],
    }
    return [service, endpoints, *_reader_role()]


def _reader_role() -> list[dict[str, Any]]:
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    role = {**kind, "kind": "ClusterRole", "metadata": {"name": DNS_USER}, "rules": rules}
    binding = {
        **kind,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": DNS_USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": DNS_USER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": DNS_USER}],
    }
    return [role, binding]
