"""The session's clusters, and a way to run a pod in one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from headrace_local.cluster import Cluster
from headrace_local.dev_runtime import ENGINE_IMAGE
from headrace_local.pytest_plugin import cluster, control_plane

__all__ = ["cluster", "control_plane", "pod_manifest", "run_pod"]

LONGEST_FIRST = (
    "test_rollout_finds_a_gpu_or_goes_back.py",
    "test_image_of_the_operator.py",
    "test_scale_down_and_rollout_lose_nothing.py",
    "test_faults_that_hide_what_is_there.py",
    "test_chart_lifecycle.py",
    "test_a_leader_that_ends_between_two_writes_is_followed.py",
    "test_thousand_services.py",
    "test_operator_survives_being_killed.py",
    "test_what_a_service_declares_reaches_its_engines.py",
    "test_a_missing_right_is_a_condition.py",
    "test_operator_keeps_children_as_declared.py",
)
"""Where workers share the files, none is left with a long one when the other has nothing more to do."""
TIMEOUT_S = 300
"""Of each test that names none: it bounds what hangs, not how fast the machine is."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


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
        cluster.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=180s")
        return name

    yield run
    for name in started:
        cluster.kubectl(
            "delete", "pod", name, "--ignore-not-found", "--wait=false", "--force", "--grace-period=0"
        )
