"""The command lines of the control plane: etcd, API server, controllers and scheduler.

etcd listens on the namespace's loopback and never syncs to disk: the cluster is thrown away whole if the
machine fails.
"""

from dataclasses import dataclass
from pathlib import Path

from headrace_local.audit import audit_flags
from headrace_local.binaries import Binaries
from headrace_local.network import API_PORT, Addresses
from headrace_local.pki import CLUSTER_DOMAIN, Pki

ETCD_URL = "http://127.0.0.1:2379"
ETCD_PEER_URL = "http://127.0.0.1:2380"
ISSUER = f"https://kubernetes.default.svc.{CLUSTER_DOMAIN}"
COLLECT_LESS = ("GOGC=400", "GOMEMLIMIT=2GiB")
"""Memory for processor time: it shares the machine with all that it serves, and by default a fifth of its
time is the collecting of garbage.
"""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Everything the four command lines are made from."""

    binaries: Binaries
    pki: Pki
    addresses: Addresses
    etcd_data: Path
    audit_log: Path

    def etcd(self) -> list[str]:
        return [
            str(self.binaries["etcd"]),
            "--name=local",
            f"--data-dir={self.etcd_data}",
            f"--listen-client-urls={ETCD_URL}",
            f"--advertise-client-urls={ETCD_URL}",
            f"--listen-peer-urls={ETCD_PEER_URL}",
            f"--initial-advertise-peer-urls={ETCD_PEER_URL}",
            f"--initial-cluster=local={ETCD_PEER_URL}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def api_server(self) -> list[str]:
        pki, addresses = self.pki, self.addresses
        return [
            "env",
            *COLLECT_LESS,
            str(self.binaries["kube-apiserver"]),
            f"--etcd-servers={ETCD_URL}",
            # Endpoints may not name the loopback: the API server is its Service's only endpoint.
            f"--advertise-address={addresses.node}",
            f"--bind-address={addresses.node}",
            f"--secure-port={API_PORT}",
            f"--service-cluster-ip-range={addresses.services}",
            f"--tls-cert-file={pki.api_server.certificate}",
            f"--tls-private-key-file={pki.api_server.key}",
            f"--client-ca-file={pki.authority.certificate}",
            "--authorization-mode=Node,RBAC",
            # The second is on where clusters are shared: whoever sets owner references needs a right for it.
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
            "--allow-privileged=true",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={pki.service_account_public}",
            f"--service-account-signing-key-file={pki.service_account_key}",
            # By name, `logs` and `exec` would look the node up in the machine's DNS.
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={pki.authority.certificate}",
            f"--kubelet-client-certificate={pki.kubelet_client.certificate}",
            f"--kubelet-client-key={pki.kubelet_client.key}",
            f"--requestheader-client-ca-file={pki.front_authority.certificate}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            *audit_flags(self.audit_log),
            f"--proxy-client-cert-file={pki.front_client.certificate}",
            f"--proxy-client-key-file={pki.front_client.key}",
            "--profiling=false",
        ]

    def controller_manager(self) -> list[str]:
        pki = self.pki
        return [
            str(self.binaries["kube-controller-manager"]),
            *self._client_of("controller-manager"),
            "--use-service-account-credentials",
            # By default it asks so slowly that its controllers take five seconds to start.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            # A claim seen before its volume is looked at again after this long, not after fifteen seconds.
            "--pvclaimbinder-sync-period=1s",
            # And a HorizontalPodAutoscaler as often, not every fifteen seconds.
            "--horizontal-pod-autoscaler-sync-period=1s",
            f"--root-ca-file={pki.authority.certificate}",
            f"--service-account-private-key-file={pki.service_account_key}",
            f"--cluster-signing-cert-file={pki.authority.certificate}",
            f"--cluster-signing-key-file={pki.authority.key}",
            f"--requestheader-client-ca-file={pki.front_authority.certificate}",
        ]

    def scheduler(self) -> list[str]:
        return [str(self.binaries["kube-scheduler"]), *self._client_of("scheduler")]

    def _client_of(self, component: str) -> list[str]:
        config = self.pki.kubeconfig(component)
        return [
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--profiling=false",
        ]
