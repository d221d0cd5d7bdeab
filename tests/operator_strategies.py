"""Hypothesis strategies for the operator: any JSON, any valid service, anything that may be seen of one."""

import string
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from operator_builders import NOW_S, deployment, histogram, observation, resource

from headrace_operator.api.parsing import parse
from headrace_operator.api.spec import Limits, ServiceSpec
from headrace_operator.decide.observation import Autoscaler, Observation, PodObservation, Scrape, Window

texts = st.text(max_size=12) | st.sampled_from(
    ["$(PATH)", "a\nb", "--flag", "\ud800", "{{x}}", "'; rm -rf /"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)
words = st.text(string.ascii_letters + string.digits, min_size=1, max_size=10)
durations = st.sampled_from(["10s", "30s", "60s", "5m"])


HOSTILE = ["$(PATH)", "$$(X)", "'; rm -rf /", "{{ .Values }}", "`id`", "a b", "é", '"', "\\", ": yaml"]
KEY = 64 * "0"
APART: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]
        }
    },
    "topologySpreadConstraints": [{"topologyKey": "zone"}],
}
MODELS: list[dict[str, Any]] = [
    {"uri": "pvc://models/tiny"},
    {"uri": "file:///opt/model"},
    {"uri": "hf://org/name"},
    {"uri": "hf://org/name", "revision": 40 * "a", "cache": {"claimName": "models"}},
    {"uri": "hf://org/name", "secretRef": {"name": "hub"}, "cache": {"size": "10Gi"}},
]
TERMS = st.fixed_dictionaries(
    {"weight": st.integers(1, 1000)},
    optional={
        "limits": st.sampled_from(
            [{"maxNumQueuedReqs": 0}, {"requestsPerMinute": 1, "tokensPerMinute": 1000}]
        ),
        "priority": st.integers(-20, 19),
        "slo": st.sampled_from([{"ttft": "2s"}, {"queueDeadline": "500ms"}]),
    },
)


@st.composite
def tenants(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(words, max_size=3, unique=True))
    return {
        "keys": {KEY: draw(words)},
        "default": draw(TERMS),
        "items": [
            {"name": name, "minShare": draw(st.sampled_from(["0.0", "0.25"])), **draw(TERMS)}
            for name in names
        ],
    }


@st.composite
def spec_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Any spec that the API server takes, with every field sometimes absent."""
    seqs = draw(st.integers(1, 64))
    tokens = draw(st.integers(seqs, 4096))
    low, high = sorted((draw(st.integers(1, 6)), draw(st.integers(1, 6))))
    bound_low, bound_high = sorted((draw(st.integers(1, seqs)), draw(st.integers(1, seqs))))
    document: dict[str, Any] = {
        "model": dict(draw(st.sampled_from(MODELS))),
        "engine": {"limits": {"maxNumSeqs": seqs, "maxNumBatchedTokens": tokens}},
        "slo": {
            "ttft": "1s",
            "itl": "200ms",
            "window": "60s",
            "attainment": draw(st.sampled_from(["0.9", "0.99"])),
        },
        "scaling": {
            "mode": draw(st.sampled_from(["Auto", "Recommend", "Fixed", "External"])),
            "minReplicas": low,
            "maxReplicas": high,
            "scaleUp": {
                "stabilization": draw(st.sampled_from(["0s", "30s"])),
                "maxStepPods": draw(st.integers(1, 3)),
                "maxStepPercent": draw(st.sampled_from([0, 50, 200])),
            },
            "scaleDown": {
                "stabilization": draw(st.sampled_from(["0s", "1m"])),
                "maxStepPods": draw(st.integers(1, 3)),
                "period": draw(st.sampled_from(["0s", "2m"])),
            },
        },
        "tuning": {
            "mode": draw(st.sampled_from(["Auto", "Recommend", "Off"])),
            "interval": "20s",
            "maxChangePercent": draw(st.integers(1, 100)),
            "bounds": {"maxNumSeqs": {"min": bound_low, "max": bound_high}},
        },
        "paused": draw(st.booleans()),
    }
    optional: dict[str, tuple[tuple[str, ...], st.SearchStrategy[Any]]] = {
        "served": (("model", "servedName"), words),
        "threads": (("engine", "threads"), st.integers(1, 256)),
        "gpu": (("engine", "gpu"), st.just({"count": 1})),
        "class": (("engine", "runtimeClassName"), st.just("headrace-dev")),
        "image": (("engine", "image"), st.just("registry.test/engine@sha256:0")),
        "length": (("engine", "limits", "maxModelLen"), st.integers(1, 4096)),
        "drain": (("engine", "drainTimeout"), durations),
        "resources": (
            ("engine", "resources"),
            st.just({"requests": {"cpu": 1}, "limits": {"memory": "1Gi"}}),
        ),
        "template": (
            ("engine", "template"),
            st.sampled_from([{"nodeSelector": {"zone": "a"}, "labels": {"team": "a"}}, APART]),
        ),
        "args": (("engine", "args"), st.lists(st.sampled_from(["--seed=1", *HOSTILE]), max_size=4)),
        "env": (
            ("engine", "env"),
            st.sampled_from(HOSTILE).map(lambda value: [{"name": "HF_ENDPOINT", "value": value}]),
        ),
        "pull": (("engine", "imagePullSecrets"), st.just(["registry"])),
        "tenants": (("tenants",), tenants()),
        "clients": (
            ("network",),
            st.sampled_from([[{"podLabels": {"app": "web"}}, {"namespaceLabels": {}}], []]).map(
                lambda clients: {"clients": clients}
            ),
        ),
        "rollout": (
            ("rollout",),
            st.sampled_from(["Auto", "RollingUpdate", "Recreate"]).map(
                lambda strategy: {"strategy": strategy, "maxUnavailable": 1}
            ),
        ),
        "deadline": (("slo", "queueDeadline"), durations),
        "e2e": (("slo", "e2e"), durations),
        "replicas": (("replicas",), st.integers(0, 8)),
    }
    for path, values in optional.values():
        if draw(st.booleans()):
            place = document
            for name in path[:-1]:
                place = place[name]
            place[path[-1]] = draw(values)
    if draw(st.integers(0, 4)) == 0:
        _run_by_vllm(document)
    return document


def _run_by_vllm(document: dict[str, Any]) -> None:
    """The same service on the other runtime, without what that one does not have."""
    document["engine"] |= {"runtime": "vllm", "image": "vllm/vllm-openai:v0.32.0", "gpu": {"count": 2}}
    document["engine"].pop("threads", None)
    document["slo"].pop("queueDeadline", None)
    document.pop("tenants", None)


ratios = st.none() | st.floats(0, 1)
latencies = st.none() | st.floats(0.001, 20)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """An interval as it may be scraped: whole or in holes, busy or idle."""
    counts = st.none() | st.integers(0, 500)

    def distribution(values: st.SearchStrategy[float | None]) -> Any:
        value, total = draw(values), draw(st.sampled_from([0, 3, 50]))
        return None if value is None else histogram([value] * total)

    span_s = draw(st.sampled_from([1.0, 10.0, 20.0, 60.0]))
    expected = draw(st.integers(0, 6))
    return Window(
        start_s=NOW_S - span_s,
        end_s=NOW_S - draw(st.sampled_from([0.0, 2.0, 30.0])),
        longest_gap_s=draw(st.sampled_from([2.0, 2.0, 15.0])),
        pods_reporting=draw(st.integers(0, expected)) if expected else 0,
        pods_expected=expected,
        arrivals=draw(counts),
        rejections=draw(counts),
        good=draw(counts),
        late=draw(counts),
        failed=draw(counts),
        prompt_tokens=draw(counts),
        generation_tokens=draw(counts),
        preemptions=draw(counts),
        steps=draw(counts),
        queue_time_s=distribution(latencies),
        ttft_s=distribution(latencies),
        itl_s=distribution(latencies),
        e2e_s=distribution(latencies),
        step_budget_used_ratio=distribution(ratios),
        running_per_pod=draw(st.none() | st.floats(0, 64)),
        running_peak=draw(st.none() | st.floats(0, 64)),
        waiting=draw(st.none() | st.floats(0, 100)),
        oldest_waiting_age_s=draw(latencies),
        kv_used_ratio=draw(ratios),
    )


@st.composite
def pods(draw: st.DrawFn, number: int) -> PodObservation:
    ready = draw(st.booleans())
    scrape = Scrape(
        NOW_S,
        draw(st.none() | st.builds(Limits, st.integers(1, 64), st.integers(1, 4096))),
        draw(st.none() | st.integers(0, 20)),
        draw(st.none() | st.booleans()),
    )
    return PodObservation(
        name=f"chat-engine-{number}",
        uid=f"uid-{number}",
        ip=draw(st.none() | st.just(f"10.0.0.{number}")),
        created_s=NOW_S - draw(st.sampled_from([1.0, 300.0, 5000.0])),
        phase="Running" if ready else draw(st.sampled_from(["Pending", "Running", "Failed"])),
        ready=ready,
        deleting=draw(st.booleans()),
        trouble=None if ready else draw(st.none() | st.sampled_from(["Unschedulable", "CrashLoopBackOff"])),
        draining_since_s=draw(st.none() | st.sampled_from([NOW_S - 1, NOW_S - 500])),
        model_commit=draw(st.none() | st.sampled_from([40 * "a", 40 * "b"])),
        scrape=draw(st.none() | st.just(scrape)),
    )


@st.composite
def statuses(draw: st.DrawFn) -> dict[str, Any]:
    """What an earlier decision, or a forger, may have left."""
    times = st.none() | st.sampled_from(
        ["2027-01-15T07:00:00Z", "2027-01-15T07:59:50Z", "2099-01-01T00:00:00Z"]
    )
    levels = st.fixed_dictionaries({"replicas": st.integers(0, 9), "since": times})
    settings = st.fixed_dictionaries(
        {
            "replicas": st.integers(0, 9),
            "maxNumSeqs": st.integers(1, 99),
            "maxNumBatchedTokens": st.integers(1, 9999),
        }
    )
    changes = st.fixed_dictionaries(
        {
            "id": words,
            "at": st.sampled_from(["2027-01-15T07:00:00Z", "2027-01-15T07:59:30Z"]),
            "generation": st.just(1),
            "action": st.sampled_from(["ScaleUp", "RaiseSeqLimit", "LowerSeqLimit", "LowerTokenBudget"]),
            "reason": st.just("ITLOverTarget"),
            "before": settings,
            "after": settings,
            "attainment": st.sampled_from(["0.99", "0.50"]),
            "requestsPerSecond": st.just("20.00"),
            "tokensPerSecond": st.just("9.0"),
        }
    )
    return {
        "desiredReplicas": draw(st.none() | st.integers(0, 50)),
        "activeLimits": draw(st.none() | settings),
        "pressure": {
            "overloadedSince": draw(times),
            "enough": draw(st.lists(levels, max_size=3)),
            "scaledDownAt": draw(times),
        },
        "history": draw(st.lists(changes, max_size=3)),
    }


@st.composite
def observations(draw: st.DrawFn, spec_document: dict[str, Any]) -> Observation:
    """Anything that may be seen of a service of that spec."""
    spec = service_of(spec_document)
    count = draw(st.integers(0, 4))
    recent = draw(st.none() | windows())
    deployed = draw(st.integers(0, 6))
    live = deployment(deployed, spec=spec, updated=draw(st.sampled_from([deployed, 0])))
    return observation(
        spec,
        pods=[draw(pods(number)) for number in range(count)],
        recent=recent,
        previous=draw(st.none() | statuses()),
        children=draw(st.sampled_from([{"Deployment": live}, {}])),
        observing_since_s=draw(st.none() | st.sampled_from([NOW_S - 10, NOW_S - 1000])),
    )


def somebody_elses(draw: st.DrawFn, seen: Observation) -> Observation:
    """The same, with what a person asks for by annotation and what others scale."""
    rivals = st.builds(Autoscaler, st.just("HorizontalPodAutoscaler x"), is_of_deployment=st.booleans())
    return replace(
        seen,
        approve=draw(st.none() | st.just("next") | words),
        is_paused=draw(st.booleans()),
        autoscalers=draw(st.none() | st.just(()) | st.tuples(rivals)),
        scaled_by=draw(st.none() | st.just("kubectl")),
    )


def service_of(spec_document: dict[str, Any]) -> ServiceSpec:
    parsed = parse({**resource(), "spec": spec_document})
    assert isinstance(parsed, ServiceSpec), parsed
    return parsed
