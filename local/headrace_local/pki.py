"""Who is who in a cluster: certificates and kubeconfigs with the names that RBAC knows."""

from dataclasses import dataclass
from pathlib import Path

from headrace_local.certificates import Authority, KeyPair, create_authority, create_signing_key
from headrace_local.kubeconfig import kubeconfig, write_kubeconfig
from headrace_local.network import Addresses

KUBELET_CLIENT = "kube-apiserver-kubelet-client"
DNS_USER = "system:coredns"
CLUSTER_DOMAIN = "cluster.local"

# Who connects to the API server besides the node: (file, user, groups).
_CLIENTS = (
    ("controller-manager", "system:kube-controller-manager", ()),
    ("scheduler", "system:kube-scheduler", ()),
    ("proxy", "system:kube-proxy", ()),
    ("dns", DNS_USER, ()),
    ("admin", "headrace-local-admin", ("system:masters",)),
)


@dataclass(frozen=True, slots=True)
class Pki:
    """The files that `create_pki` made, by the names that their users have."""

    directory: Path

    @property
    def authority(self) -> KeyPair:
        return self._pair("ca")

    @property
    def front_authority(self) -> KeyPair:
        return self._pair("front-proxy-ca")

    @property
    def front_client(self) -> KeyPair:
        return self._pair("front-proxy-client")

    @property
    def api_server(self) -> KeyPair:
        return self._pair("kube-apiserver")

    @property
    def kubelet_client(self) -> KeyPair:
        """What the API server shows to the kubelet."""
        return self._pair("kubelet-client")

    @property
    def kubelet(self) -> KeyPair:
        return self._pair("kubelet")

    @property
    def admin(self) -> KeyPair:
        return self._pair("admin")

    @property
    def service_account_key(self) -> Path:
        return self.directory / "service-account.key"

    @property
    def service_account_public(self) -> Path:
        return self.directory / "service-account.pub"

    def kubeconfig(self, component: str) -> Path:
        return self.directory / f"{component}.kubeconfig"

    def _pair(self, name: str) -> KeyPair:
        return KeyPair(self.directory / f"{name}.crt", self.directory / f"{name}.key")


def create_pki(directory: Path, context: str, node: str, addresses: Addresses) -> Pki:
    """Make every certificate, and every kubeconfig with the one context that is called `context`."""
    authority = create_authority(directory, "ca")
    create_authority(directory, "front-proxy-ca").issue("front-proxy-client", "front-proxy-client")
    create_signing_key(directory, "service-account")
    authority.issue("kube-apiserver", "kube-apiserver", hosts=_api_server_names(addresses))
    authority.issue("kubelet-client", KUBELET_CLIENT)
    pki = Pki(directory)
    _issue_clients(authority, pki, context, node, addresses)
    return pki


def _issue_clients(authority: Authority, pki: Pki, context: str, node: str, addresses: Addresses) -> None:
    clients = {file: authority.issue(file, user, groups=groups) for file, user, groups in _CLIENTS}
    clients["kubelet"] = authority.issue(
        "kubelet", f"system:node:{node}", groups=["system:nodes"], hosts=[node, str(addresses.node)]
    )
    for file, client in clients.items():
        config = kubeconfig(context, addresses.api_url, pki.authority.certificate, client)
        write_kubeconfig(pki.kubeconfig(file), config)


def _api_server_names(addresses: Addresses) -> list[str]:
    service = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    reached_at = (str(addresses.node), str(addresses.kubernetes_service), "127.0.0.1", "localhost")
    return [*service, f"kubernetes.default.svc.{CLUSTER_DOMAIN}", *reached_at]
