"""What the chart makes of its values: the least that runs, restricted, and nothing that was not asked for."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace_local.binaries import built_binaries
from headrace_operator.config import OperatorConfig

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "headrace"
CRD = "inferenceservices.headrace.dev"

Object = dict[str, Any]
Render = Callable[..., list[Object]]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    binaries = built_binaries()
    assert binaries is not None, "helm is not built: local/test builds it, once"
    return subprocess.run([binaries["helm"], *arguments], check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def render() -> Render:
    """The objects of the chart with some values set, as in `--set`, and some APIs known to the cluster."""

    def rendered(*values: str, apis: tuple[str, ...] = ()) -> list[Object]:
        settings = [argument for value in values for argument in ("--set", value)]
        settings += [argument for api in apis for argument in ("--api-versions", api)]
        done = helm(
            "template", "headrace", str(CHART), "-n", "headrace-system", "--kube-version", "1.34.0", *settings
        )
        assert done.returncode == 0, done.stderr
        return [found for found in yaml.safe_load_all(done.stdout) if found]

    return rendered


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [found for found in objects if found["kind"] == kind]


def rules(objects: list[Object]) -> Iterator[Object]:
    """Those that the operator's ServiceAccount gets; the roles for people are aggregated, not bound."""
    for role in (*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")):
        if not role["metadata"]["name"].endswith(("-view", "-edit")):
            yield from role["rules"]


def test_it_lints() -> None:
    done = helm("lint", "--strict", "--kube-version", "1.34.0", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_object_is_labeled_and_in_the_release_namespace(render: Render) -> None:
    cluster_wide = {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    for found in render():
        metadata = found["metadata"]
        assert metadata["labels"]["app.kubernetes.io/part-of"] == "headrace", metadata["name"]
        assert (found["kind"] in cluster_wide) == ("namespace" not in metadata), metadata["name"]


def test_the_operator_has_no_right_on_secrets_and_none_that_escalates(render: Render) -> None:
    for values in ((), ("watchNamespaces={team-a}",)):
        for rule in rules(render(*values)):
            assert not {"secrets", "*", "pods/exec", "serviceaccounts/token", "nodes"} & set(
                rule["resources"]
            )
            assert not {"*", "delete", "deletecollection", "bind", "escalate", "impersonate"} & set(
                rule["verbs"]
            )


def test_only_its_own_lease_can_be_changed(render: Render) -> None:
    leases = [rule for rule in rules(render()) if rule["resources"] == ["leases"]]
    assert [rule.get("resourceNames") for rule in leases if rule["verbs"] != ["create"]] == [
        ["headrace-operator"]
    ]


def test_with_watched_namespaces_there_is_a_role_in_each_and_no_cluster_role(render: Render) -> None:
    objects = render("watchNamespaces={team-a,team-b}")
    assert all(
        role["metadata"]["name"].endswith(("-view", "-edit")) for role in of_kind(objects, "ClusterRole")
    )
    assert not of_kind(objects, "ClusterRoleBinding")
    for kind in ("Role", "RoleBinding"):
        namespaces = [found["metadata"]["namespace"] for found in of_kind(objects, kind)]
        assert sorted(namespaces) == ["headrace-system", "team-a", "team-b"]


def test_the_operators_pod_is_restricted(render: Render) -> None:
    (deployment,) = of_kind(render(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert {tuple(volume)[1] for volume in pod["volumes"]} == {"secret", "emptyDir"}


def test_the_operator_accepts_the_environment_that_it_is_given(render: Render) -> None:
    (deployment,) = of_kind(render("watchNamespaces={team-a,team-b}", "logLevel=debug"), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {variable["name"]: variable.get("value", "from-the-pod") for variable in container["env"]}
    config = OperatorConfig.load(given)
    assert config.watch_namespaces == ("team-a", "team-b")
    assert config.log_level == "debug"
    assert config.http_port == container["ports"][0]["containerPort"]
    mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert str(config.admin_key_file.parent) in mounted
    known = {f"HEADRACE_OPERATOR_{name.upper()}" for name in OperatorConfig.model_fields}
    assert set(given) <= known


def test_defaults_that_are_taken_away_by_null_leave_an_environment_that_is_accepted(render: Render) -> None:
    nulls = ("networkPolicy.metricsFrom=null", "monitoring.podMonitor.labels=null", "watchNamespaces=null")
    (deployment,) = of_kind(render("monitoring.podMonitor.enabled=true", *nulls), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    config = OperatorConfig.load({found["name"]: found.get("value", "x") for found in container["env"]})
    assert (config.metrics_from, config.pod_monitor_labels, config.watch_namespaces) == ((), {}, ())


def test_one_replica_has_no_disruption_budget_that_would_block_its_node(render: Render) -> None:
    assert len(of_kind(render(), "PodDisruptionBudget")) == 1
    assert not of_kind(render("replicas=1"), "PodDisruptionBudget")


def test_the_image_is_pinned_by_digest_where_one_is_given(render: Render) -> None:
    digest = "sha256:" + "0" * 64
    (deployment,) = of_kind(
        render("image.repository=example/operator", f"image.digest={digest}"), "Deployment"
    )
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"example/operator@{digest}"


def test_the_admin_key_is_made_unless_one_is_named(render: Render) -> None:
    (secret,) = of_kind(render(), "Secret")
    assert list(secret["data"]) == ["admin.pem"]
    objects = render("adminKey.existingSecret=mine")
    assert not of_kind(objects, "Secret")
    (deployment,) = of_kind(objects, "Deployment")
    assert {"secretName": "mine", "defaultMode": 0o440} in [
        volume.get("secret") for volume in deployment["spec"]["template"]["spec"]["volumes"]
    ]


def test_the_charts_definition_is_the_generated_one() -> None:
    made, carried = ROOT / "crds" / f"{CRD}.yaml", CHART / "files" / "crds" / f"{CRD}.yaml"
    assert carried.read_bytes() == made.read_bytes(), f"run: cp {made} {carried}"


def test_definitions_are_kept_on_uninstall_unless_told_otherwise(render: Render) -> None:
    made = yaml.safe_load((ROOT / "crds" / f"{CRD}.yaml").read_text())
    (kept,) = of_kind(render(), "CustomResourceDefinition")
    assert kept["spec"] == made["spec"]
    assert kept["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    (removed,) = of_kind(render("crds.keep=false"), "CustomResourceDefinition")
    assert "helm.sh/resource-policy" not in (removed["metadata"].get("annotations") or {})
    assert not of_kind(render("crds.enabled=false"), "CustomResourceDefinition")


def test_a_pod_monitor_is_made_only_where_the_cluster_knows_it(render: Render) -> None:
    wanted = "monitoring.podMonitor.enabled=true"
    assert not of_kind(render(wanted), "PodMonitor")
    assert of_kind(render(wanted, apis=("monitoring.coreos.com/v1",)), "PodMonitor")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("replica=2", "replica"),
        ("image.tga=x", "tga"),
        ("replicas=0", "replicas"),
        ("image.digest=latest", "digest"),
        ("watchNamespaces={Team_A}", "watchNamespaces"),
        ("logLevel=loud", "logLevel"),
    ],
)
def test_a_value_that_means_nothing_is_refused_by_name(value: str, complaint: str) -> None:
    done = helm("template", "headrace", str(CHART), "--kube-version", "1.34.0", "--set", value)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_pod_monitors_of_services_take_a_right_that_is_there_only_where_they_are_wanted(
    render: Render,
) -> None:
    def monitored(objects: list[Object]) -> list[Object]:
        return [rule for rule in rules(objects) if rule["apiGroups"] == ["monitoring.coreos.com"]]

    assert monitored(render()) == []
    [rule] = monitored(render("monitoring.podMonitor.enabled=true"))
    assert (rule["resources"], "delete" in rule["verbs"]) == (["podmonitors"], False)
