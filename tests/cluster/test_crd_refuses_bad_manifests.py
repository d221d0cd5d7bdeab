"""What `kubectl apply` says to bad manifests, asked of a real API server: the field, and what to do."""

import json
from pathlib import Path

import pytest
from operator_builders import resource
from operator_manifests import BAD_NAMES, BAD_SPECS, without_nulls

from headrace_local.cluster import ClusterError
from headrace_operator.api.names import API_VERSION, KIND

pytestmark = pytest.mark.cluster
CRDS, EXAMPLES = (Path(__file__).parents[2] / name for name in ("crds", "examples"))
SAMPLE = (
    "budget below sequences",
    "owned flag with its value",
    "tenant beyond the pod",
    "more replicas than the GPU budget",
    "vLLM without an image",
    "rollout given up before pods can start",
)
"""Rules of one field, of several, and of several parts."""


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


@pytest.fixture(scope="module")
def edited(api):
    """A service that is well, for bad edits of it."""
    api.kubectl("apply", "--server-side", "-f", "-", stdin=manifest(name="edited"))
    yield "edited"
    api.kubectl("delete", "infs", "edited")


@pytest.mark.parametrize("case", SAMPLE)
@pytest.mark.parametrize("way", ["patch", "apply", "server-side apply", "replace"])
def test_a_bad_edit_is_refused_like_a_bad_start_in_whatever_way_it_comes(api, edited, case, way):
    changes, field = BAD_SPECS[case]
    with pytest.raises(ClusterError) as refused:
        edit(api, edited, changes, way)
    assert field in str(refused.value)


def edit(api, name, changes, way):
    dry = "--dry-run=server"
    if way == "patch":
        api.kubectl("patch", "infs", name, dry, "--type=merge", "-p", json.dumps({"spec": changes}))
    elif way == "apply":
        api.kubectl("apply", dry, "-f", "-", stdin=manifest(changes, name=name))
    elif way == "server-side apply":
        api.kubectl(
            "apply", dry, "--server-side", "--force-conflicts", "-f", "-", stdin=manifest(changes, name=name)
        )
    else:
        api.kubectl("replace", dry, "-f", "-", stdin=manifest(changes, name=name))


def test_a_bad_number_is_refused_where_only_the_number_is_set(api, edited):
    with pytest.raises(ClusterError, match=r"spec\.replicas"):
        api.kubectl("scale", "infs", edited, "--replicas=2000")


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_example_is_taken(api, file):
    assert "created" in api.kubectl("create", "--dry-run=server", "-f", str(file))


def test_defaults_are_seen_after_apply(api):
    least = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "least"}}
    text = json.dumps({**least, "spec": {"model": {"uri": "hf://org/name"}}})
    api.kubectl("apply", "-f", "-", stdin=text)
    spec = json.loads(api.kubectl("get", "infs", "least", "-o", "json"))["spec"]
    assert spec["engine"]["limits"] == {"maxNumSeqs": 256, "maxNumBatchedTokens": 8192}
    assert spec["slo"] == {"attainment": "0.95", "window": "5m"}
    assert spec["scaling"]["scaleDown"] == {"stabilization": "5m", "maxStepPods": 1, "period": "2m"}
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
