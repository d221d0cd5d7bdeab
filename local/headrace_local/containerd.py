"""containerd for one node: its configuration, the pod network, and the runtime of development engines.

Inside the sandbox `/run` is the cluster's own, so containerd's socket and state are where they always are.
Its images lie there too: unpacked in memory they are ready at once and gone with the sandbox, while a disk
takes many seconds to make, and again to delete, their tens of thousands of files.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace_local.network import Addresses

SOCKET = "/run/containerd/containerd.sock"
ROOT = "/run/headrace/containerd"
PAUSE_IMAGE = "headrace.local/pause:1"
DEV_RUNTIME = "headrace-dev"

_CONFIG = """\
version = 2
root = "{root}"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE nobody may lower a score, and every pod would fail for its sandbox's -998.
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_plugins}"
    conf_dir = "{cni_conf}"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{dev_runtime}]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = "{dev_spec}"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{dev_runtime}.options]
        SystemdCgroup = false
"""


@dataclass(frozen=True, slots=True)
class Containerd:
    """The files of one node's containerd, below `directory`."""

    directory: Path

    @property
    def config(self) -> Path:
        return self.directory / "config.toml"

    @property
    def dev_spec(self) -> Path:
        return self.directory / "dev-runtime.json"

    @property
    def cni_conf(self) -> Path:
        return self.directory / "cni"

    def command(self) -> list[str]:
        return ["containerd", "--config", str(self.config), "--log-level", "warn"]

    def write(self, addresses: Addresses, cni_plugins: Path, dev_spec: dict[str, Any]) -> None:
        """Write the configuration; `dev_spec` is the base specification of `DEV_RUNTIME`'s containers."""
        self.cni_conf.mkdir(parents=True, exist_ok=True)
        self.config.write_text(
            _CONFIG.format(
                root=ROOT,
                socket=SOCKET,
                pause=PAUSE_IMAGE,
                cni_plugins=cni_plugins,
                cni_conf=self.cni_conf,
                dev_runtime=DEV_RUNTIME,
                dev_spec=self.dev_spec,
            )
        )
        self.dev_spec.write_text(json.dumps(dev_spec))
        (self.cni_conf / "10-headrace.conflist").write_text(json.dumps(pod_network(addresses)))


def pod_network(addresses: Addresses) -> dict[str, Any]:
    """The CNI configuration: every pod on a link of its own, routed.

    On a bridge, a reply between two pods would bypass the translation of Service addresses unless the kernel
    has br_netfilter; routed, it never does.
    """
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": str(addresses.pods)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni",
    }
    return {
        "cniVersion": "0.4.0",
        "name": "headrace",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": ipam},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def bind_mount(source: Path, destination: Path) -> dict[str, Any]:
    """A read-only bind mount of an OCI runtime specification."""
    return {
        "type": "bind",
        "source": str(source),
        "destination": str(destination),
        "options": ["rbind", "ro", "nosuid", "nodev"],
    }
