"""The CRD that is checked in is the one that the models make, and it leaves nothing open."""

from pathlib import Path

import pytest
import yaml

from headrace_operator.api.crd import custom_resource_definition, manifest_text
from headrace_operator.api.vocabulary import ConditionType, Reason

MANIFEST = Path(__file__).parents[4] / "crds" / "inferenceservices.headrace.dev.yaml"
SCHEMA = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def nodes(schema, path=""):
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from nodes(schema[keyword], f"{path}[]")


FIELDS = [(path, node) for path, node in nodes(SCHEMA) if path.startswith((".spec", ".status"))]


SETTING = "maxNumBatchedTokens maxNumSeqs replicas"
WRITTEN_FROM_THE_START = {
    ".status.model": "commits",
    ".status.summary": "limits ready",
    ".status.activeLimits": "maxNumBatchedTokens maxNumSeqs since source",
    ".status.observed": "at podsReporting window",
    ".status.slo": "key since",
    ".status.pressure.enough[]": "replicas since",
    ".status.decision": "action after applied at before id message reason",
    ".status.decision.before": SETTING,
    ".status.decision.after": SETTING,
    ".status.decision.inputs[]": "name value",
    ".status.decision.alternatives[]": "action message rejected",
    ".status.recommendation": "action after message reason",
    ".status.recommendation.after": SETTING,
    ".status.approval": "message outcome value",
    ".status.history[]": "action after at before generation id message reason",
    ".status.history[].before": SETTING,
    ".status.history[].after": SETTING,
    ".status.history[].inputs[]": "name value",
    ".status.history[].alternatives[]": "action message rejected",
    ".status.rollout": "since template",
    ".status.rollout.good": "maxNumBatchedTokens maxNumSeqs replicaSet template",
    ".status.rollout.failed": "at message reason",
    ".status.conditions[]": "lastTransitionTime message observedGeneration reason status type",
}


def test_a_field_that_is_added_is_not_required():
    """The definition is upgraded before the operator, and stays where that is taken back: an operator that
    does not know the field could write no status, and so would do nothing at all.
    """
    required = {path: set(node["required"]) for path, node in FIELDS if "required" in node}
    known = {path: set(fields.split()) for path, fields in WRITTEN_FROM_THE_START.items()}
    assert {path: fields for path, fields in required.items() if path.startswith(".status")} == known


def test_the_checked_in_crd_is_the_generated_one():
    assert MANIFEST.read_text() == manifest_text(), (
        "python -m headrace_operator.api.crd > crds/inferenceservices.headrace.dev.yaml"
    )


def test_it_is_yaml_of_one_document():
    assert yaml.safe_load(manifest_text()) == custom_resource_definition()


@pytest.mark.parametrize(("path", "node"), FIELDS, ids=[path for path, _ in FIELDS])
def test_every_value_has_a_maximum(path, node):
    kind = node.get("type")
    if kind == "string":
        assert "maxLength" in node or "enum" in node
    elif kind == "integer":
        assert {"minimum", "maximum"} <= set(node)
    elif kind == "array":
        assert "maxItems" in node
    elif kind == "object" and "additionalProperties" in node:
        assert "maxProperties" in node
    elif kind is None:
        assert node["x-kubernetes-int-or-string"]
        assert "maxLength" in node


@pytest.mark.parametrize(("path", "node"), FIELDS, ids=[path for path, _ in FIELDS])
def test_every_field_is_explained(path, node):
    if not path.endswith("[]"):
        assert node["description"].endswith((".", "?"))


def test_no_field_takes_a_pod_a_container_or_a_reference_elsewhere():
    names = {path.rpartition(".")[2] for path, _ in FIELDS}
    forbidden = {
        "containers",
        "volumes",
        "volumeMounts",
        "command",
        "valueFrom",
        "envFrom",
        "namespace",
        "hostPath",
        "patch",
    }
    assert names & forbidden == set()
    assert not any(node.get("x-kubernetes-preserve-unknown-fields") for _, node in FIELDS)


def test_it_can_be_scaled_and_lives_beside_the_services_of_others():
    spec = custom_resource_definition()["spec"]
    assert spec["names"]["shortNames"] == ["infs"]
    assert spec["versions"][0]["subresources"]["scale"]["specReplicasPath"] == ".spec.replicas"
    columns = [column["name"] for column in spec["versions"][0]["additionalPrinterColumns"]]
    assert columns[:3] == ["Ready", "SLO", "Attained"]


@pytest.mark.parametrize("word", [*ConditionType, *Reason])
def test_every_word_that_scripts_match_on_is_documented(word):
    text = (MANIFEST.parents[1] / "docs" / "api.md").read_text()
    assert f"`{word}`" in text.partition("## Conditions")[2]
