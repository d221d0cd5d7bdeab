"""Two other projects have a kind InferenceService with plural inferenceservices: all three in one cluster."""

import json
from pathlib import Path

import pytest
from operator_builders import resource

from headrace_operator.api.names import API_VERSION, KIND

pytestmark = pytest.mark.cluster
CRDS = Path(__file__).parents[2] / "crds"
OTHERS = ("serving.kserve.io", "ome.io")
OURS = "inferenceservices.headrace.dev"


def crd(group):
    """As they name it, without what they put into it."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {
        "kind": KIND,
        "listKind": f"{KIND}List",
        "plural": "inferenceservices",
        "singular": "inferenceservice",
        "shortNames": ["isvc"],
    }
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"inferenceservices.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture(scope="module")
def shared(control_plane):
    """The others were there first."""
    control_plane.apply([crd(group) for group in OTHERS])
    control_plane.kubectl("apply", "--server-side", "-f", str(CRDS))
    crds = [f"crd/inferenceservices.{group}" for group in (*OTHERS, "headrace.dev")]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *crds)
    ours = {**resource(), "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "chat"}}
    theirs = [
        {"apiVersion": f"{group}/v1beta1", "kind": KIND, "metadata": {"name": f"of-{group.split('.')[0]}"}}
        for group in OTHERS
    ]
    control_plane.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [ours, *theirs]})
    )
    yield control_plane
    control_plane.kubectl("delete", "infs", "chat")
    control_plane.kubectl("delete", *(f"crd/inferenceservices.{group}" for group in OTHERS))


def test_all_names_of_ours_are_accepted(shared):
    found = json.loads(shared.kubectl("get", "crd", OURS, "-o", "json"))["status"]
    assert found["acceptedNames"]["shortNames"] == ["infs"]
    accepted = {condition["type"]: condition["status"] for condition in found["conditions"]}
    assert accepted["NamesAccepted"] == "True"


@pytest.mark.parametrize("name", ["infs", OURS, "inference"])
def test_ours_are_found_by_short_name_full_name_and_category(shared, name):
    found = shared.kubectl("get", name, "-o", "name").split()
    assert found == ["inferenceservice.headrace.dev/chat"]


@pytest.mark.parametrize("group", OTHERS)
def test_theirs_are_found_by_their_full_name(shared, group):
    found = shared.kubectl("get", f"inferenceservices.{group}", "-o", "name").split()
    assert found == [f"inferenceservice.{group}/of-{group.split('.')[0]}"]


def test_their_short_name_never_means_ours(shared):
    assert "chat" not in shared.kubectl("get", "isvc", "-o", "name")


def test_ours_are_scaled_and_explained_by_the_short_name(shared):
    shared.kubectl("scale", "infs", "chat", "--replicas=2")
    assert json.loads(shared.kubectl("get", "infs", "chat", "-o", "json"))["spec"]["replicas"] == 2
    assert "What a good request is" in shared.kubectl("explain", "infs.spec.slo")
