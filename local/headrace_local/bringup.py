"""The order in which a cluster's daemons start, and what each must say before the next.

Nothing here looks at what may be there already: `lifecycle` gives it a clean place.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from headrace_local.cluster import Cluster
from headrace_local.containerd import SOCKET, Containerd
from headrace_local.controlplane import ControlPlane
from headrace_local.dev_runtime import Environment, dev_runtime_spec, runtime_class
from headrace_local.dns import READY_PORT, dns_command, dns_objects
from headrace_local.images import import_own_images
from headrace_local.missing import CNI_PACKAGE, Missing, cni_directory
from headrace_local.network import connect
from headrace_local.node import PROXY_HEALTH_PORT, Node
from headrace_local.pki import KUBELET_CLIENT, Pki, create_pki
from headrace_local.probe import answers, await_ready, node_is_ready
from headrace_local.sandbox import HOLDER, start_sandbox

CONTROL_PLANE = (HOLDER, "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE = ("containerd", "kubelet", "kube-proxy", "coredns")

_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


def start_control_plane(cluster: Cluster) -> None:
    """Start everything but the node; on return, objects can be created by any client."""
    state, daemons, addresses = cluster.state, cluster.daemons, cluster.addresses
    pki = create_pki(state.pki, state.context, cluster.name, addresses)
    sandbox = start_sandbox(daemons, state.own, state.mount_points)
    connect(addresses, state.link, sandbox.holder.pid)
    plane = ControlPlane(cluster.binaries, pki, addresses, state.directory / "etcd", cluster.audit_log)
    daemons.start("etcd", sandbox.command(*plane.etcd()))
    daemons.start("kube-apiserver", sandbox.command(*plane.api_server()))
    api = cluster.api
    await_ready(daemons, "the API server", api.is_ready)
    daemons.start("kube-controller-manager", sandbox.command(*plane.controller_manager()))
    daemons.start("kube-scheduler", sandbox.command(*plane.scheduler()))
    # Without it, the first pods would be refused.
    await_ready(daemons, "the service-account controller", lambda: api.get(_DEFAULT_ACCOUNT) is not None)
    shutil.copy(pki.kubeconfig("admin"), state.kubeconfig)


def start_node(cluster: Cluster) -> None:
    """Start the node beside a control plane that stands; on return, pods run and names resolve."""
    state, daemons, addresses, sandbox = cluster.state, cluster.daemons, cluster.addresses, cluster.sandbox
    pki = Pki(state.pki)
    _start_containerd(cluster)
    import_own_images(sandbox, cluster.binaries, state.directory / "images")
    cluster.apply([*dns_objects(addresses), runtime_class(), _kubelet_access()])
    directory = state.directory / "node"
    node = Node(cluster.name, cluster.binaries, pki, addresses, state.tag, directory)
    daemons.start("kubelet", sandbox.command(*node.kubelet()))
    daemons.start("kube-proxy", sandbox.command(*node.proxy()))
    dns = dns_command(cluster.binaries, addresses, pki.kubeconfig("dns"), directory)
    daemons.start("coredns", sandbox.command(*dns))
    api, host = cluster.api, str(addresses.node)
    await_ready(daemons, "the node", lambda: node_is_ready(api.get(f"/api/v1/nodes/{cluster.name}")))
    await_ready(daemons, "kube-proxy", lambda: answers(host, PROXY_HEALTH_PORT, "/healthz"))
    await_ready(daemons, "CoreDNS", lambda: answers(host, READY_PORT, "/ready"))


def _start_containerd(cluster: Cluster) -> None:
    plugins = cni_directory()
    if plugins is None:
        raise Missing(
            f"The pod network's plugins are missing: install them with `apt-get install {CNI_PACKAGE}`."
        )
    containerd = Containerd(cluster.state.directory / "containerd")
    spec = dev_runtime_spec(_default_runtime_spec(), Environment.current())
    containerd.write(cluster.addresses, plugins, spec)
    sandbox = cluster.sandbox
    cluster.daemons.start("containerd", sandbox.command(*containerd.command()))
    socket = Path(f"/proc/{sandbox.holder.pid}/root{SOCKET}")
    await_ready(cluster.daemons, "containerd", socket.exists)


def _default_runtime_spec() -> dict[str, Any]:
    # `ctr` prints it; `containerd oci spec` would start a daemon.
    printed = subprocess.run(["ctr", "oci", "spec"], check=True, capture_output=True, text=True)
    spec: dict[str, Any] = json.loads(printed.stdout)
    return spec


def _kubelet_access() -> dict[str, Any]:
    """Lets the API server use the kubelet for `logs`, `exec` and `port-forward`."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": KUBELET_CLIENT},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": KUBELET_CLIENT}],
    }
