"""The operator beside a cluster whose node runs engines: real pods, a real scheduler, a model of no size."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kube_objects import KubeObjects
from operator_process import OperatorProcess, account_file, install, launch_operator
from own_namespace import Namespace

from headrace_local.cluster import Cluster


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    """The cluster with what the chart puts there, but for the operator itself."""
    return install(cluster)


@pytest.fixture(scope="session")
def account(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's own kubeconfig."""
    return account_file(installed, tmp_path_factory.mktemp("account") / "kubeconfig")


@pytest.fixture(scope="session")
def launch(account: Path, admin_key: Path) -> Callable[..., OperatorProcess]:
    """Starts an operator process; whoever starts it ends it."""
    return partial(launch_operator, account, admin_key)


@pytest.fixture(scope="session")
def objects(installed: Cluster) -> Iterator[KubeObjects]:
    objects = KubeObjects(installed)
    yield objects
    objects.close()


@pytest.fixture(scope="module")
def namespace(objects: KubeObjects, tiny_model_dir: Path) -> Iterator[Namespace]:
    """A module's own namespace, with the model in it."""
    namespace = Namespace.create(objects, **{"pod-security.kubernetes.io/enforce": "restricted"})
    objects.cluster.provide_models(tiny_model_dir.parent, namespace=namespace.name)
    yield namespace
    # Engines that drain would hold CPU while the next module's start.
    namespace.kubectl("delete", "infs", "--all", "--wait=false")
    namespace.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
    namespace.leave()


@pytest.fixture(scope="session")
def real_service(installed: Cluster, tiny_model_dir: Path) -> Callable[..., dict[str, Any]]:
    """`real_service(name, replicas=1)`: one that runs here. `engine` is laid over its engine part, other
    keywords over its spec.
    """
    own = installed.engine_values

    def manifest(
        name: str = "chat", *, replicas: int = 1, engine: dict[str, Any] | None = None, **spec: Any
    ) -> dict[str, Any]:
        least = {
            "model": {"uri": f"pvc://models/{tiny_model_dir.name}"},
            "slo": {"ttft": "30s", "window": "30s"},
            "scaling": {"mode": "Fixed", "minReplicas": replicas, "maxReplicas": replicas},
        }
        runs = {**own, "threads": 1, "startupTimeout": "3m", "limits": {"maxNumSeqs": 64}}
        return {
            "apiVersion": "headrace.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": name},
            "spec": {**least, "engine": {**runs, **(engine or {})}, **spec},
        }

    return manifest


@pytest.fixture(scope="session")
def give_gpus(objects: KubeObjects) -> Callable[[int], None]:
    """`give_gpus(n)`: the node has that many, as far as the scheduler knows."""
    [node] = objects.find("nodes", None)

    def give(count: int) -> None:
        patch = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(count)}]
        objects.patch("node", None, node["metadata"]["name"], patch, subresource="status")

    return give
