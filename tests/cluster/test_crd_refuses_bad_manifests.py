"""What `kubectl apply` says to bad manifests, asked of a real API server: the field, and what to do."""

import json
from pathlib import Path

import pytest
from operator_builders import resource
from operator_manifests import BAD_NAMES, BAD_SPECS, without_nulls

from headrace_local.cluster import ClusterError
from headrace_operator.api.names import API_VERSION, KIND

pytestmark = pytest.mark.cluster
CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="module")
def api(control_plane):
    control_plane.kubectl("apply", "--server-side", "-f", str(CRDS))
    control_plane.kubectl("wait", "--for=condition=Established", "crd/inferenceservices.headrace.dev")
    return control_plane


def manifest(changes=None, *, name="chat"):
    bare = without_nulls(resource(changes, name=name))
    metadata = {"name": name, "namespace": "default"}
    return json.dumps({"apiVersion": API_VERSION, "kind": KIND, **bare, "metadata": metadata})


def refusal(api, text):
    with pytest.raises(ClusterError) as refused:
        api.kubectl("create", "--dry-run=server", "-f", "-", stdin=text)
    return str(refused.value)


@pytest.mark.parametrize("case", BAD_SPECS)
def test_a_bad_spec_is_refused_and_the_field_is_named(api, case):
    changes, field = BAD_SPECS[case]
    assert field in refusal(api, manifest(changes))


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused(api, name):
    assert "metadata.name" in refusal(api, manifest(name=name))


def test_a_bad_edit_is_refused_like_a_bad_start(api):
    api.kubectl("apply", "-f", "-", stdin=manifest(name="edited"))
    patch = json.dumps({"spec": {"engine": {"limits": {"maxNumBatchedTokens": 4}}}})
    with pytest.raises(ClusterError, match="maxNumBatchedTokens"):
        api.kubectl("patch", "infs", "edited", "--type=merge", "-p", patch)
    api.kubectl("delete", "infs", "edited")


def test_defaults_are_seen_after_apply(api):
    least = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "least"}}
    text = json.dumps({**least, "spec": {"model": {"uri": "hf://org/name"}}})
    api.kubectl("apply", "-f", "-", stdin=text)
    spec = json.loads(api.kubectl("get", "infs", "least", "-o", "json"))["spec"]
    assert spec["engine"]["limits"] == {"maxNumSeqs": 256, "maxNumBatchedTokens": 8192}
    assert spec["slo"] == {"attainment": "0.95", "window": "5m"}
    assert spec["scaling"]["scaleDown"] == {"stabilization": "5m"}
    assert spec["tuning"]["mode"] == "Recommend"
    api.kubectl("delete", "infs", "least")


def test_the_explanation_of_the_slo_reads_well(api):
    told = api.kubectl("explain", "infs.spec.slo")
    assert "What a good request is, and how many must be good." in told
    assert "Most time from a request's arrival to its first token" in told


def test_the_list_has_its_columns(api):
    api.kubectl("apply", "-f", "-", stdin=manifest(name="listed"))
    header = api.kubectl("get", "infs").splitlines()[0].split()
    assert header == [
        "NAME",
        "READY",
        "SLO",
        "ATTAINED",
        "TTFT-P95",
        "ITL-P95",
        "LIMITS",
        "ACTION",
        "REASON",
        "AGE",
    ]
    api.kubectl("scale", "infs", "listed", "--replicas=2")
    assert json.loads(api.kubectl("get", "infs", "listed", "-o", "json"))["spec"]["replicas"] == 2
    api.kubectl("delete", "infs", "listed")
