"""vLLM behind an InferenceService: its flags, probes and drain, and what it cannot do while it runs."""

import pytest
from operator_builders import NOW_S, SETTINGS, deployment, observation, pod, service, window

from headrace_operator.api.spec import Limits
from headrace_operator.decide.controller import decide
from headrace_operator.decide.drain import SETTLE_S
from headrace_operator.decide.observation import Scrape
from headrace_operator.render.children import children

VLLM = {
    "engine": {"runtime": "vllm", "image": "vllm/vllm-openai:v0.32.0", "gpu": {"count": 2}},
    "slo": {"ttft": "1s", "itl": "200ms", "window": "60s"},
}


def vllm(*changes):
    spec = {name: dict(part) for name, part in VLLM.items()}
    for change in changes:
        for name, part in change.items():
            spec[name] = {**spec.get(name, {}), **part}
    return service(spec)


def rendered(spec):
    made = children(spec, replicas=1, limits=Limits(16, 512), image=spec.engine.image, admin_keys="{}")
    return {manifest["kind"]: manifest for manifest in made}


def container(spec):
    [found] = rendered(spec)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found


def test_it_is_started_with_the_capacity_that_the_spec_declares():
    found = container(vllm({"engine": {"limits": {"maxNumSeqs": 32, "maxModelLen": 4096}}}))
    line = " ".join([*found["command"], *found["args"]])
    assert line.startswith("vllm serve /models/tiny ")
    for part in ("--max-num-seqs 32", "--max-num-batched-tokens 512", "--max-model-len 4096"):
        assert part in line
    assert "--tensor-parallel-size 2" in line
    assert found["resources"]["limits"]["nvidia.com/gpu"] == "2"


def test_a_flag_that_only_vllm_has_is_passed_on():
    found = container(vllm({"engine": {"args": ["--speculative-config", '{"method": "ngram"}']}}))
    assert found["args"][1:3] == ["--speculative-config", '{"method": "ngram"}']


def test_it_downloads_a_model_itself_into_the_cache():
    spec = vllm({"model": {"uri": "hf://org/name", "revision": 40 * "a", "secretRef": {"name": "hub"}}})
    found = container(spec)
    variables = {item["name"]: item for item in found["env"]}
    assert found["args"][0] == "org/name"
    assert f"--revision {40 * 'a'}" in " ".join(found["args"])
    assert variables["HF_HOME"]["value"].startswith("/cache/")
    assert variables["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "HF_TOKEN"}
    assert "/cache" in [mount["mountPath"] for mount in found["volumeMounts"]]


def test_it_reports_to_nobody():
    variables = {item["name"]: item.get("value") for item in container(vllm())["env"]}
    assert variables["VLLM_NO_USAGE_STATS"] == variables["DO_NOT_TRACK"] == "1"


def test_it_has_as_long_as_the_drain_takes_to_end_what_it_has():
    spec = vllm({"engine": {"drainTimeout": "5m"}})
    assert "--shutdown-timeout 300" in " ".join(container(spec)["args"])
    assert rendered(spec)["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > 303
    assert container(spec)["lifecycle"]["preStop"]["sleep"]["seconds"] > 0


def test_no_port_for_calls_is_opened():
    assert [port["name"] for port in container(vllm())["ports"]] == ["http"]


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_its_health_is_asked_where_it_answers(probe):
    assert container(vllm())[probe]["httpGet"] == {"path": "/health", "port": "http"}


def plan(spec, pods, *, desired=1, previous=None, recent=None):
    facts = observation(
        spec,
        pods=pods,
        recent=recent or window(itl_s=0.5),
        previous={"desiredReplicas": desired, **(previous or {})},
        children={"Deployment": deployment(len(pods), spec=spec)},
    )
    return decide(facts, spec, settings=SETTINGS, now_s=NOW_S)


def serving(number, in_flight=1, **fields):
    return pod(number, scrape=Scrape(NOW_S, None, in_flight, None), **fields)


def test_limits_are_recommended_and_the_status_says_that_they_take_a_rollout():
    made = plan(vllm(), [serving(0)])
    conditions = {found["type"]: found for found in made.status["conditions"]}
    tuning = conditions["TuningActive"]
    assert (tuning["status"], tuning["reason"]) == ("False", "RequiresRollout")
    assert "engine.limits" in tuning["message"]
    assert made.status["recommendation"]["action"] in {"LowerSeqLimit", "LowerTokenBudget"}
    assert made.status["activeLimits"]["source"] == "Spec"
    assert made.set_limits == ()
    [config] = [manifest for manifest in made.objects if manifest["kind"] == "ConfigMap"]
    assert '"max_num_seqs": 16' in config["data"]["limits.json"]


def test_other_limits_in_the_spec_replace_the_pods():
    before, after = container(vllm()), container(vllm({"engine": {"limits": {"maxNumSeqs": 8}}}))
    assert before != after


def test_a_pod_to_be_removed_is_marked_and_then_deleted_without_a_call():
    spec = vllm()
    first = plan(spec, [serving(0, 9), serving(1, 2)], desired=1)
    assert [mark.pod_name for mark in first.annotate if "headrace.dev/draining" in mark.annotations] == [
        serving(1).name
    ]
    assert first.drain == ()
    marked = serving(1, 2, draining_since_s=NOW_S - SETTLE_S)
    then = plan(spec, [serving(0, 9), marked], desired=1)
    [live] = [manifest for manifest in then.objects if manifest["kind"] == "Deployment"]
    assert live["spec"]["replicas"] == 1
    assert then.drain == ()
    assert [event.reason for event in then.events if event.reason.startswith("Drain")] == ["DrainHandedOver"]
