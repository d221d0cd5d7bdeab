"""A release over its life: upgraded from the one before, uninstalled, installed again, beside another one.

Engines run all the while; whatever Helm does, none of their pods is touched.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from eventually import eventually
from kube_objects import KubeObjects
from own_namespace import Namespace

from headrace_local.cluster import Cluster
from headrace_local.operator_image import build_operator_image
from headrace_local.probe import ClusterError
from headrace_local.progress import Phases

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(900)]

CHART = Path(__file__).parents[2] / "charts" / "headrace"
YOUNGEST_FIELD = "paused"
"""The release before does not know it."""
CRD = "crd/inferenceservices.headrace.dev"


@dataclass(frozen=True)
class Release:
    """The chart in a namespace of its own, under Pod Security's `restricted`."""

    cluster: Cluster
    system: str
    watched: str

    def install(self, chart: Path, *more: str) -> None:
        """Installs or upgrades, and returns once the operator is ready."""
        values = ("replicas=1", f"watchNamespaces={{{self.watched}}}", "reconcileIntervalSeconds=1", *more)
        sets = [argument for value in values for argument in ("--set", value)]
        where = ("-n", self.system, "--take-ownership", "--wait", "--timeout=240s")
        self.cluster.helm("upgrade", "--install", self.system, str(chart), *where, *sets)

    def uninstall(self) -> None:
        self.cluster.helm("uninstall", self.system, "-n", self.system, "--wait", "--ignore-not-found")

    def key(self) -> str:
        where = ("-n", self.system, "secret", "headrace-admin-key")
        return self.cluster.kubectl("get", *where, "-o", "jsonpath={.data}")


@pytest.fixture(scope="module")
def previous_chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart as it might have been a release ago: an older version, whose resource lacks a field."""
    place = tmp_path_factory.mktemp("previous") / "headrace"
    shutil.copytree(CHART, place)
    about = yaml.safe_load((place / "Chart.yaml").read_text())
    (place / "Chart.yaml").write_text(yaml.safe_dump({**about, "version": "0.0.9", "appVersion": "0.0.9"}))
    for file in (place / "files" / "crds").iterdir():
        definition = yaml.safe_load(file.read_text())
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["properties"][YOUNGEST_FIELD]
        file.write_text(yaml.safe_dump(definition))
    return place


@pytest.fixture(scope="module")
def objects(cluster: Cluster) -> Iterator[KubeObjects]:
    objects = KubeObjects(cluster)
    yield objects
    objects.close()


def _restricted(objects: KubeObjects, name: str) -> Namespace:
    return Namespace.create(objects, name, **{"pod-security.kubernetes.io/enforce": "restricted"})


@pytest.fixture(scope="module")
def served(cluster: Cluster, objects: KubeObjects, tiny_model_dir: Path) -> Iterator[Namespace]:
    """Where the service is, with its model; the operator's image is on the node."""
    cluster.load_image(build_operator_image(Phases(quiet=True)))
    served = _restricted(objects, "life-served")
    cluster.provide_models(tiny_model_dir.parent, namespace=served.name)
    yield served
    print(cluster.kubectl("get", "pods,infs", "-A", "-o", "wide"))
    served.kubectl("delete", "infs", "--all", "--wait=false")
    served.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
    served.leave()


@pytest.fixture(scope="module")
def release(cluster: Cluster, served: Namespace) -> Iterator[Release]:
    release = Release(cluster, "life-system", served.name)
    system = _restricted(served.objects, release.system)
    yield release
    release.uninstall()
    system.leave()


@pytest.fixture(scope="module")
def service(cluster: Cluster, tiny_model_dir: Path) -> dict[str, Any]:
    engine = {**cluster.engine_values, "threads": 1, "startupTimeout": "3m"}
    spec = {"model": {"uri": f"pvc://models/{tiny_model_dir.name}"}, "engine": engine, "slo": {"ttft": "30s"}}
    kind = {"apiVersion": "headrace.dev/v1alpha1", "kind": "InferenceService", "metadata": {"name": "chat"}}
    return {**kind, "spec": spec}


@dataclass(frozen=True)
class Running:
    """What Helm must not touch: the engine's pod, and the children that no live edit of the spec reaches."""

    pod: tuple[str, int, str]
    versions: dict[str, str]

    @classmethod
    def of(cls, namespace: Namespace) -> "Running":
        [pod] = namespace.find("pods")
        [container] = pod["status"]["containerStatuses"]
        assert container["ready"]
        children = {
            kind: (namespace.get(kind, name) or {})["metadata"]["resourceVersion"]
            for kind, name in (
                ("service", "chat"),
                ("serviceaccount", "chat-engine"),
                ("networkpolicy", "chat-engine"),
            )
        }
        deployment = namespace.get("deployment", "chat-engine")
        assert deployment is not None
        # The Deployment's own controller writes its status; what is ours has a generation.
        children["deployment"] = str(deployment["metadata"]["generation"])
        started = container["state"]["running"]["startedAt"]
        return cls((pod["metadata"]["uid"], container["restartCount"], started), children)


def _steers(namespace: Namespace, ttft: str) -> bool:
    """Whether an edit of the spec is answered: somebody steers."""
    namespace.patch("infs", "chat", {"spec": {"slo": {"ttft": ttft}}})
    generation = namespace.get("infs", "chat")["metadata"]["generation"]
    eventually(lambda: namespace.get("infs", "chat")["status"]["observedGeneration"] == generation)
    return True


def _is_known(cluster: Cluster, field: str) -> bool:
    try:
        cluster.kubectl("explain", f"infs.spec.{field}")
    except ClusterError:
        return False
    return True


def test_an_upgrade_brings_new_fields_and_touches_no_engine(
    cluster: Cluster, release: Release, served: Namespace, service: dict[str, Any], previous_chart: Path
) -> None:
    release.install(previous_chart)
    cluster.kubectl("wait", "--for=condition=Established", CRD)
    assert not _is_known(cluster, YOUNGEST_FIELD)
    served.apply(service)
    served.kubectl("wait", "--for=condition=Ready", "infs/chat", "--timeout=240s")
    before, key = Running.of(served), release.key()
    release.install(CHART)
    eventually(lambda: _is_known(cluster, YOUNGEST_FIELD))
    assert _steers(served, "29s")
    assert Running.of(served) == before
    assert release.key() == key


def test_an_uninstall_leaves_services_and_their_pods(
    cluster: Cluster, release: Release, served: Namespace
) -> None:
    before, key = Running.of(served), release.key()
    release.uninstall()
    assert cluster.kubectl("-n", release.system, "get", "deployments", "-o", "name") == ""
    assert Running.of(served) == before
    assert release.key() == key
    pod = before.pod[0]
    assert pod in json.dumps(served.find("endpointslices")), "it is still reached by its Service"


def test_the_next_install_adopts_what_runs(release: Release, served: Namespace) -> None:
    before = Running.of(served)
    release.install(CHART)
    assert _steers(served, "28s")
    assert Running.of(served) == before


def test_two_releases_serve_a_namespace_each_and_nobody_the_third(
    cluster: Cluster, release: Release, served: Namespace, service: dict[str, Any]
) -> None:
    other = Release(cluster, "life-system-2", "life-other")
    spaces = [_restricted(served.objects, name) for name in (other.system, other.watched, "life-nobody")]
    try:
        other.install(CHART, "crds.enabled=false", "rbac.aggregateToDefaultRoles=false")
        before = Running.of(served)
        unserved = {**service, "spec": {**service["spec"], "engine": {}}}
        for space in spaces[1:]:
            space.apply(unserved)
        eventually(lambda: spaces[1].get("deployment", "chat-engine"))
        assert _steers(served, "27s")
        assert Running.of(served) == before
        assert "status" not in spaces[2].get("infs", "chat")
        account = f"--as=system:serviceaccount:{other.system}:headrace-operator"
        for namespace, answer in ((served.name, "no"), (other.watched, "yes")):
            assert _may_list(cluster, namespace, account) == answer
    finally:
        other.uninstall()
        for space in spaces:
            space.leave()


def _may_list(cluster: Cluster, namespace: str, account: str) -> str:
    try:
        cluster.kubectl("auth", "can-i", "list", "pods", "-n", namespace, account)
    except ClusterError:
        return "no"
    return "yes"
