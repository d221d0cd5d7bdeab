"""One running cluster, as its users hold it: kubectl, Helm, images, models."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace_local.binaries import Binaries
from headrace_local.containerd import DEV_RUNTIME
from headrace_local.dev_runtime import ENGINE_IMAGE
from headrace_local.images import import_archive
from headrace_local.kubeconfig import merge_context
from headrace_local.network import Addresses
from headrace_local.pki import Pki
from headrace_local.probe import Api, ClusterError
from headrace_local.processes import Daemons
from headrace_local.sandbox import HOLDER, Sandbox
from headrace_local.state import State
from headrace_local.storage import CLAIM, show_read_only, volume_name, volume_objects

COMMAND_TIMEOUT_S = 300.0
CLAIM_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that stands. What fails here raises `ClusterError` with what the program said."""

    state: State
    addresses: Addresses
    binaries: Binaries
    daemons: Daemons

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state.kubeconfig

    @property
    def audit_log(self) -> Path:
        """What ServiceAccounts but Kubernetes' own wrote: an audit Event a line."""
        return self.state.logs / "audit.log"

    @property
    def url(self) -> str:
        return self.addresses.api_url

    @property
    def api(self) -> Api:
        return Api.of(self.addresses, Pki(self.state.pki))

    @property
    def sandbox(self) -> Sandbox:
        holders = [process for process in self.daemons.all() if process.name == HOLDER and process.alive]
        if not holders:
            raise ClusterError(f"the cluster {self.name} is down")
        return Sandbox(holders[0])

    def environment(self) -> dict[str, str]:
        """The environment in which kubectl, Helm and clients find this cluster and leave no other trace."""
        caches = self.state.directory / "client"
        helm = {
            f"HELM_{kind}_HOME": str(caches / "helm" / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")
        }
        path = f"{self.binaries.directory}:{os.environ.get('PATH', os.defpath)}"
        kubectl = {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(caches / "kubectl"),
            "KUBERC": "off",
        }
        return {**os.environ, **helm, **kubectl, "PATH": path}

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator; what it printed."""
        return self._run([str(self.binaries["kubectl"]), *arguments], stdin)

    def apply(self, objects: Sequence[dict[str, Any]]) -> str:
        """Server-side apply of objects, in order."""
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        return self.kubectl(
            "apply", "--server-side", "--field-manager=headrace-local", "-f", "-", stdin=manifest
        )

    def helm(self, *arguments: str) -> str:
        """Run Helm as the administrator; what it printed."""
        return self._run([str(self.binaries["helm"]), *arguments], None)

    def load_image(self, archive: Path) -> list[str]:
        """Import an OCI or docker archive into the node; the names of its images."""
        try:
            return import_archive(self.sandbox, archive)
        except ValueError as error:
            raise ClusterError(str(error)) from error

    def provide_models(self, directory: Path, *, namespace: str = "default", claim: str = CLAIM) -> None:
        """Make a directory of models a read-only claim in `namespace`, and return once it is bound."""
        path = show_read_only(self.sandbox, directory, volume_name(namespace, claim))
        self.apply(volume_objects(path, namespace, claim))
        bound = "--for=jsonpath={.status.phase}=Bound"
        self.kubectl(
            "wait", bound, f"persistentvolumeclaim/{claim}", "-n", namespace, f"--timeout={CLAIM_TIMEOUT_S}s"
        )

    def add_context(self, kubeconfig: Path) -> None:
        """Add this cluster's context to a kubeconfig of the user's; its current context stays."""
        merge_context(kubeconfig, yaml.safe_load(self.kubeconfig.read_text()))

    @property
    def engine_values(self) -> dict[str, str]:
        """What a pod spec names to run the checkout's engine here."""
        return {"image": ENGINE_IMAGE, "runtimeClassName": DEV_RUNTIME}

    def _run(self, command: list[str], stdin: str | None) -> str:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            env=self.environment(),
            **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
        )
        if done.returncode != 0:
            program = Path(command[0]).name
            raise ClusterError(
                f"`{program} {' '.join(command[1:])}`: {done.stderr.strip() or done.stdout.strip()}"
            )
        return done.stdout
