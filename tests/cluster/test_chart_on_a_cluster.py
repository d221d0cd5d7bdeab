"""The installed chart on a real API server: what its rights and its admission policy let the operator do."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from eventually import eventually
from pod_wishes import WISHES, hub_token

from headrace_local.cluster import Cluster
from headrace_local.dev_runtime import runtime_class
from headrace_local.probe import ClusterError
from headrace_operator.api.names import LEFT_ALONE
from headrace_operator.api.parsing import parse
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.render.children import children

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "headrace"
SYSTEM = "headrace-system"
OPERATOR = f"system:serviceaccount:{SYSTEM}:headrace-operator"
NAMESPACE = "chart-test"

Object = dict[str, Any]


# The session's control plane may hold the definition already, put there by other tests.
INSTALL = (
    "upgrade",
    "--install",
    "headrace",
    str(CHART),
    "-n",
    SYSTEM,
    "--create-namespace",
    "--take-ownership",
)


@pytest.fixture(scope="module")
def installed(control_plane: Cluster) -> Iterator[Cluster]:
    control_plane.helm(*INSTALL, "--set", "replicas=1")
    control_plane.kubectl("wait", "--for=condition=Established", "crd/inferenceservices.headrace.dev")
    control_plane.kubectl("create", "namespace", NAMESPACE)
    control_plane.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    _wait_for_the_policies(control_plane)
    yield control_plane
    control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    control_plane.helm("uninstall", "headrace", "-n", SYSTEM)


def _wait_for_the_policies(cluster: Cluster) -> None:
    """The API server takes up a new policy, and a new kind as an owner, after a while; probes show when."""
    owner = {"apiVersion": "headrace.dev/v1alpha1", "kind": "InferenceService", "name": "p", "uid": "p"}
    owned = config_map("probe")
    owned["metadata"]["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    eventually(
        lambda: _refusal(cluster, config_map("probe")) and "RESTMapping" not in _refusal(cluster, owned)
    )


def _refusal(cluster: Cluster, manifest: Object) -> str:
    """Why the operator may not apply it; empty where it may."""
    try:
        as_operator(cluster, manifest, dry_run=True)
    except ClusterError as error:
        return str(error)
    return ""


def as_operator(cluster: Cluster, manifest: Object, *, dry_run: bool = False) -> str:
    """Server-side apply with the operator's rights, as it does it."""
    options = ["--server-side", "--field-manager=headrace", "--force-conflicts", f"--as={OPERATOR}"]
    options += ["--dry-run=server"] if dry_run else []
    return cluster.kubectl("apply", *options, "-f", "-", stdin=json.dumps(manifest))


def config_map(name: str) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


@pytest.fixture(scope="module")
def service(installed: Cluster) -> ServiceSpec:
    """examples/chat.yaml, created by a user and parsed."""
    raw = yaml.safe_load((ROOT / "examples" / "chat.yaml").read_text())
    installed.kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=json.dumps(raw))
    stored = installed.kubectl("-n", NAMESPACE, "get", "infs", raw["metadata"]["name"], "-o", "json")
    parsed = parse(json.loads(stored))
    assert isinstance(parsed, ServiceSpec)
    return parsed


@pytest.fixture
def rendered(service: ServiceSpec) -> dict[str, Object]:
    """What the operator makes of the service, by kind."""
    limits = service.engine.capacity
    made = children(service, replicas=1, limits=limits, image="headrace.local/engine:dev", admin_keys="{}")
    return {manifest["kind"]: copy.deepcopy(manifest) for manifest in made}


def can(
    cluster: Cluster, verb: str, resource: str, namespace: str = NAMESPACE, *, who: str = OPERATOR
) -> bool:
    try:
        answer = cluster.kubectl("auth", "can-i", verb, resource, "-n", namespace, f"--as={who}")
    except ClusterError:
        return False
    return answer.strip().endswith("yes")


@pytest.mark.parametrize("namespace", [NAMESPACE, SYSTEM])
def test_the_operator_has_no_right_on_secrets(installed: Cluster, namespace: str) -> None:
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    assert [verb for verb in verbs if can(installed, verb, "secrets", namespace)] == []


def test_the_operator_makes_children_and_removes_nothing(installed: Cluster) -> None:
    kinds = ("deployments.apps", "services", "configmaps", "poddisruptionbudgets.policy")
    assert [kind for kind in kinds if not can(installed, "patch", kind)] == []
    assert [kind for kind in kinds if can(installed, "delete", kind)] == []
    refused = [
        ("create", "pods"),
        ("delete", "pods"),
        ("create", "pods/exec"),
        ("patch", "inferenceservices"),
    ]
    assert [pair for pair in refused if can(installed, *pair)] == []


def test_the_policies_mean_what_they_say(installed: Cluster) -> None:
    """The API server checks the types of every expression and warns of what can never hold."""
    names = [
        f"headrace-operator-{SYSTEM}-{part}"
        for part in (
            *("children", "services", "selectors", "network-policies"),
            *("accounts", "pod-templates", "pods"),
        )
    ]

    def checked(name: str) -> Object | None:
        policy = json.loads(installed.kubectl("get", "validatingadmissionpolicy", name, "-o", "json"))
        status = policy.get("status", {})
        return status if status.get("observedGeneration") == policy["metadata"]["generation"] else None

    for name in names:
        status = eventually(lambda name=name: checked(name))
        assert (status.get("typeChecking") or {}).get("expressionWarnings", []) == []


def test_what_the_operator_renders_is_admitted_twice(installed: Cluster, rendered: dict[str, Object]) -> None:
    for _ in range(2):
        for manifest in rendered.values():
            as_operator(installed, manifest)


def test_what_no_service_asked_for_is_denied(installed: Cluster, rendered: dict[str, Object]) -> None:
    for manifest in rendered.values():
        stray = json.loads(json.dumps(manifest).replace('"chat', '"stray'))
        del stray["metadata"]["ownerReferences"]
        with pytest.raises(ClusterError, match="only objects that an InferenceService controls"):
            as_operator(installed, stray, dry_run=True)


def test_an_object_of_somebody_else_is_not_taken_over(
    installed: Cluster, rendered: dict[str, Object]
) -> None:
    installed.kubectl("create", "-f", "-", stdin=json.dumps(config_map("users")))
    mine = rendered["ConfigMap"]
    mine["metadata"]["name"] = "users"
    # Where owner references are guarded too, that guard may speak first.
    with pytest.raises(ClusterError, match=r"does not take over|cannot set an ownerRef"):
        as_operator(installed, mine)


def test_no_service_is_opened_to_the_outside(installed: Cluster, rendered: dict[str, Object]) -> None:
    rendered["Service"]["spec"]["type"] = "LoadBalancer"
    with pytest.raises(ClusterError, match="reachable from outside"):
        as_operator(installed, rendered["Service"], dry_run=True)


def test_a_child_is_named_after_its_service(installed: Cluster, rendered: dict[str, Object]) -> None:
    # A Deployment of another name is no engine's by more than its name.
    for kind in rendered.keys() - {"Deployment"}:
        manifest = rendered[kind]
        manifest["metadata"]["name"] = "database"
        if kind == "Service":
            manifest["spec"]["selector"] = {"headrace.dev/inferenceservice": "database"}
        with pytest.raises(ClusterError, match="has its owner's name"):
            as_operator(installed, manifest, dry_run=True)


DATABASE = {"matchLabels": {"app": "database"}}


@pytest.mark.parametrize(
    ("kind", "field", "selector"),
    [
        ("NetworkPolicy", "podSelector", {}),
        ("NetworkPolicy", "podSelector", DATABASE),
        ("PodDisruptionBudget", "selector", {}),
        ("PodDisruptionBudget", "selector", DATABASE),
        ("Deployment", "selector", DATABASE),
        ("Service", "selector", DATABASE["matchLabels"]),
    ],
)
def test_no_child_is_about_pods_of_others(
    installed: Cluster, rendered: dict[str, Object], kind: str, field: str, selector: Object
) -> None:
    """It would take their requests, open them to everybody, or keep their nodes from being drained."""
    made = json.loads(json.dumps(rendered[kind]).replace('"chat', '"another'))
    as_operator(installed, made, dry_run=True)
    made["spec"][field] = selector
    if kind == "Deployment":
        made["spec"]["template"]["metadata"]["labels"] |= {"app": "database"}
    with pytest.raises(ClusterError, match="pods of its own service"):
        as_operator(installed, made, dry_run=True)


def test_no_account_of_an_engine_has_a_token(installed: Cluster, rendered: dict[str, Object]) -> None:
    account = rendered["ServiceAccount"]
    for change in ({"automountServiceAccountToken": True}, {"secrets": [{"name": "admin"}]}):
        with pytest.raises(ClusterError, match="no token and no Secret"):
            as_operator(installed, account | change, dry_run=True)


def test_an_account_that_the_platform_gave_a_secret_is_still_ours_to_keep(
    installed: Cluster, rendered: dict[str, Object]
) -> None:
    """OpenShift adds one to each account."""
    account = rendered["ServiceAccount"]
    as_operator(installed, account)
    name, secret = account["metadata"]["name"], {"name": "its-dockercfg"}
    given = json.dumps({"secrets": [secret]})
    installed.kubectl("-n", NAMESPACE, "patch", "serviceaccount", name, "--type=merge", "-p", given)
    account["metadata"]["labels"]["again"] = "yes"
    as_operator(installed, account)
    kept = json.loads(installed.kubectl("-n", NAMESPACE, "get", "serviceaccount", name, "-o", "json"))
    assert kept["secrets"] == [secret]
    with pytest.raises(ClusterError, match="no token and no Secret"):
        as_operator(installed, account | {"secrets": [secret, {"name": "admin"}]}, dry_run=True)


def test_the_hub_s_token_is_the_one_key_of_a_secret_that_a_pod_may_read(
    installed: Cluster, rendered: dict[str, Object]
) -> None:
    deployment = rendered["Deployment"]
    deployment["spec"]["template"]["spec"]["containers"][0]["env"].append(hub_token())
    as_operator(installed, deployment, dry_run=True)


@pytest.mark.parametrize("wish", WISHES)
def test_a_pod_template_with_more_than_an_engine_needs_is_denied(
    installed: Cluster, rendered: dict[str, Object], wish: str
) -> None:
    deployment = rendered["Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    WISHES[wish](pod, pod["containers"][0])
    with pytest.raises(ClusterError, match="engine pods"):
        as_operator(installed, deployment, dry_run=True)


def test_of_a_pod_only_the_marks_of_loading_and_draining_change(
    installed: Cluster, rendered: dict[str, Object]
) -> None:
    template = rendered["Deployment"]["spec"]["template"]
    template["spec"].pop("runtimeClassName", None)
    metadata = {"name": "engine", "namespace": NAMESPACE, "labels": template["metadata"]["labels"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    installed.kubectl("create", "-f", "-", stdin=json.dumps(pod))

    def change(metadata: Object) -> str:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "engine", "namespace": NAMESPACE}}
        return as_operator(installed, body | {"metadata": body["metadata"] | metadata})

    draining = {"headrace.dev/draining": "now", "controller.kubernetes.io/pod-deletion-cost": "-1"}
    change({"annotations": draining | LEFT_ALONE})
    change({"annotations": {}})
    with pytest.raises(ClusterError, match="annotations of loading and draining alone"):
        change({"annotations": {"other": "x"}})
    with pytest.raises(ClusterError, match="changes annotations alone"):
        change({"labels": {"headrace.dev/inferenceservice": "another"}})


def test_the_key_outlives_an_upgrade_and_an_uninstall(installed: Cluster) -> None:
    def key() -> str:
        return installed.kubectl(
            "-n", SYSTEM, "get", "secret", "headrace-admin-key", "-o", "jsonpath={.data}"
        )

    first = key()
    installed.helm(*INSTALL, "--set", "replicas=2")
    assert key() == first
    installed.helm("uninstall", "headrace", "-n", SYSTEM)
    assert key() == first
    assert "chat" in installed.kubectl("-n", NAMESPACE, "get", "infs", "-o", "name")
    installed.helm(*INSTALL, "--set", "replicas=1")
    assert key() == first


EXAMPLES = sorted(file.stem for file in (ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_pods_of_an_example_are_admitted_by_the_policies_and_under_restricted(
    installed: Cluster, example: str
) -> None:
    """Whichever runtime it names, vLLM among them: its Deployment is applied as the operator does it, and
    Kubernetes' own controller makes the pod of it.
    """
    raw = yaml.safe_load((ROOT / "examples" / f"{example}.yaml").read_text())
    raw["metadata"]["name"] = name = f"example-{example}"
    installed.apply([runtime_class()])
    space = ("-n", NAMESPACE)
    installed.kubectl(*space, "create", "-f", "-", stdin=json.dumps(raw))
    try:
        spec = parse(json.loads(installed.kubectl(*space, "get", "infs", name, "-o", "json")))
        assert isinstance(spec, ServiceSpec)
        limits = spec.engine.capacity
        for child in children(spec, replicas=1, limits=limits, image="engine:1", admin_keys="{}"):
            as_operator(installed, child)
        pod_there = ("--for=create", "pod", "-l", f"headrace.dev/inferenceservice={name}", "--timeout=60s")
        installed.kubectl(*space, "wait", *pod_there)
    finally:
        installed.kubectl(*space, "delete", "infs", name, "--wait=false")


def test_every_example_is_accepted_to_the_last_field(installed: Cluster) -> None:
    for example in sorted((ROOT / "examples").glob("*.yaml")):
        options = ("--dry-run=server", "--validate=strict", "-n", NAMESPACE)
        assert "dry run" in installed.kubectl("apply", *options, "-f", str(example))


def test_the_built_in_roles_reach_inference_services(installed: Cluster) -> None:
    bound = ("create", "rolebinding", "ann", "--clusterrole=edit", "--user=ann", "-n", NAMESPACE)
    installed.kubectl(*bound)
    eventually(lambda: can(installed, "create", "inferenceservices.headrace.dev", who="ann"))
