"""The node: kubelet and kube-proxy, configured for one machine whose images cannot be pulled again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace_local.binaries import Binaries
from headrace_local.containerd import SOCKET
from headrace_local.network import Addresses
from headrace_local.pki import CLUSTER_DOMAIN, Pki

PROXY_HEALTH_PORT = 10256


@dataclass(frozen=True, slots=True)
class Node:
    """Everything the two command lines are made from."""

    name: str
    binaries: Binaries
    pki: Pki
    addresses: Addresses
    cgroup: str
    directory: Path

    def kubelet(self) -> list[str]:
        """Write the kubelet's files and return its command line."""
        self.directory.mkdir(exist_ok=True)
        (self.directory / "resolv.conf").write_text(f"nameserver {self.addresses.node}\n")
        config = self.directory / "kubelet.yaml"
        config.write_text(yaml.safe_dump(self._kubelet_configuration()))
        return [
            str(self.binaries["kubelet"]),
            f"--config={config}",
            f"--kubeconfig={self.pki.kubeconfig('kubelet')}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.addresses.node}",
        ]

    def proxy(self) -> list[str]:
        return [
            str(self.binaries["kube-proxy"]),
            f"--kubeconfig={self.pki.kubeconfig('proxy')}",
            f"--hostname-override={self.name}",
            "--proxy-mode=nftables",
            # The connection tracking limits are the machine's: from inside the namespace they cannot be set.
            "--conntrack-max-per-core=0",
            "--conntrack-min=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            f"--healthz-bind-address={self.addresses.node}:{PROXY_HEALTH_PORT}",
            "--metrics-bind-address=127.0.0.1:10249",
            "--oom-score-adj=0",
        ]

    def _kubelet_configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": str(self.addresses.node),
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.pki.authority.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(self.pki.kubelet.certificate),
            "tlsPrivateKeyFile": str(self.pki.kubelet.key),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "clusterDNS": [str(self.addresses.dns_service)],
            "clusterDomain": CLUSTER_DOMAIN,
            "resolvConf": str(self.directory / "resolv.conf"),
            "failSwapOn": False,
            # How late a pod sees that a ConfigMap changed: a minute would make every trial of it long.
            "syncFrequency": "3s",
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            # No registry has these images: once collected, they would be gone.
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "imageMaximumGCAge": "0s",
            "oomScoreAdj": 0,
        }
