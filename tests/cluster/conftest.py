"""The session's clusters, and a way to run a pod in one."""

import json
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from headrace_local.cluster import Cluster
from headrace_local.dev_runtime import ENGINE_IMAGE
from headrace_local.pytest_plugin import cluster, control_plane

__all__ = ["cluster", "control_plane", "pod_manifest", "run_pod"]


class ManifestOf(Protocol):
    def __call__(
        self, name: str, *, container: dict[str, Any] | None = None, **spec: Any
    ) -> dict[str, Any]: ...


@pytest.fixture(scope="session")
def pod_manifest() -> ManifestOf:
    """A pod that Pod Security's `restricted` admits; `container` and `spec` override parts of it."""

    def manifest(name: str, *, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        main = {
            "name": "main",
            "image": ENGINE_IMAGE,
            "imagePullPolicy": "Never",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            **(container or {}),
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
                "containers": [main],
                "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}],
                **spec,
            },
        }

    return manifest


@pytest.fixture
def run_pod(cluster: Cluster, pod_manifest: ManifestOf) -> Iterator[Any]:
    """Starts a pod in `default` and returns once it is Ready; it goes with the test."""
    started = []

    def run(name: str, *, container: dict[str, Any] | None = None, **spec: Any) -> str:
        manifest = pod_manifest(name, container=container, **spec)
        started.append(name)
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
        cluster.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
        return name

    yield run
    for name in started:
        cluster.kubectl(
            "delete", "pod", name, "--ignore-not-found", "--wait=false", "--force", "--grace-period=0"
        )
