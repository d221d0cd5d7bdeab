"""Pods of the API, in the shapes that kubelets leave them in, and the scrapes that go with them."""

import pytest

from headrace_operator.api.names import LEFT_ALONE
from headrace_operator.api.spec import Limits
from headrace_operator.observe.exposition import parse
from headrace_operator.observe.pods import is_scrapable, observe_pod, unix_s
from headrace_operator.observe.sample import PodSample, sample
from headrace_operator.runtimes.metric_map import HEADRACE, Counter, Distribution, Gauge

NOON = "2026-11-29T12:00:00Z"


def pod(status=None, *, container=None, annotations=None, **metadata):
    statuses = (
        [] if container is None else [{"name": "sidecar", "restartCount": 9}, {"name": "engine", **container}]
    )
    return {
        "metadata": {
            "name": "chat-engine-1",
            "uid": "u",
            "namespace": "default",
            "creationTimestamp": NOON,
            "labels": {"pod-template-hash": "abc"},
            "annotations": annotations or {},
            **metadata,
        },
        "status": {"phase": "Pending", "containerStatuses": statuses, **(status or {})},
    }


def held_by(manager, *names):
    """An entry of `managedFields`: the marks of autoscalers, or other annotations."""
    held = {f"f:{name}": {} for name in names or LEFT_ALONE}
    return {"manager": manager, "operation": "Apply", "fieldsV1": {"f:metadata": {"f:annotations": held}}}


def condition(type_, status, **more):
    return {"conditions": [{"type": type_, "status": status, "lastTransitionTime": NOON, **more}]}


def test_a_pod_that_serves():
    observed = observe_pod(
        pod(
            {"phase": "Running", "podIP": "10.0.0.1", **condition("Ready", "True")},
            container={"restartCount": 2},
        ),
        None,
    )
    assert (observed.ready, observed.ready_since_s, observed.created_s) == (True, unix_s(NOON), unix_s(NOON))
    assert (observed.ip, observed.restarts, observed.unready_since_s) == ("10.0.0.1", 2, None)
    assert (observed.trouble, observed.scrape, observed.deleting, observed.draining_since_s) == (
        None,
        None,
        False,
        None,
    )


def test_a_pod_that_is_drained_and_deleted():
    observed = observe_pod(pod(annotations={"headrace.dev/draining": NOON}, deletionTimestamp=NOON), None)
    assert (observed.draining_since_s, observed.deleting) == (unix_s(NOON), True)


def test_a_pod_is_left_alone_by_both_autoscalers_or_not_at_all():
    ours = {"managedFields": [held_by("headrace")]}
    assert observe_pod(pod(annotations=dict(LEFT_ALONE), **ours), None).is_left_alone
    assert not observe_pod(
        pod(annotations={"karpenter.sh/do-not-disrupt": "true"}, **ours), None
    ).is_left_alone
    assert not observe_pod(pod(), None).is_left_alone


@pytest.mark.parametrize(
    "managed",
    [
        None,
        [],
        [held_by("kyverno")],
        [held_by("headrace", "headrace.dev/draining")],
        [{"manager": "headrace"}],
    ],
)
def test_marks_that_somebody_else_set_are_not_ours_to_take_away(managed):
    """Letting go of them changes nothing: it would be tried for ever."""
    assert not observe_pod(pod(annotations=dict(LEFT_ALONE), managedFields=managed), None).is_left_alone


@pytest.mark.parametrize(
    ("status", "container", "trouble", "message"),
    [
        (
            condition("PodScheduled", "False", reason="Unschedulable", message="0/1 nodes"),
            None,
            "Unschedulable",
            "0/1",
        ),
        ({}, {"state": {"waiting": {"reason": "ContainerCreating"}}}, None, None),
        (
            {},
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "pull"}}},
            "ImagePullBackOff",
            "pull",
        ),
        (
            {},
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                "lastState": {"terminated": {"reason": "Error", "exitCode": 1, "message": "no config.json"}},
            },
            "Error",
            "no config.json",
        ),
        (
            {},
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
            },
            "OOMKilled",
            "more memory than its limit",
        ),
        ({}, {"state": {"terminated": {"reason": "Error", "exitCode": 2}}}, "Error", "exit code 2"),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
            None,
            "Evicted",
            "low on memory",
        ),
        (
            {"phase": "Running"},
            {
                "state": {"running": {}},
                "lastState": {"terminated": {"reason": "Error", "message": "no config.json"}},
            },
            "Error",
            "no config.json",
        ),
        (
            {"phase": "Running"},
            {"ready": True, "state": {"running": {}}, "lastState": {"terminated": {"reason": "Error"}}},
            None,
            None,
        ),
        ({"phase": "Failed"}, None, "Failed", None),
    ],
    ids=[
        "unschedulable",
        "creating",
        "pull",
        "crash",
        "memory",
        "ended",
        "evicted",
        "tries again",
        "serves again",
        "failed",
    ],
)
def test_trouble_is_told_in_kubernetes_words(status, container, trouble, message):
    observed = observe_pod(pod(status, container=container), None)
    assert observed.trouble == trouble
    if message is None:
        assert observed.trouble_message is None
    else:
        assert message in observed.trouble_message


def test_all_states_of_a_crash_loop_tell_the_same():
    ended = {"terminated": {"reason": "Error", "exitCode": 1, "message": "no config.json in /models"}}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}}
    states = (
        {"state": ended},
        {"state": waits, "lastState": ended},
        {"state": {"running": {}}, "lastState": ended},
    )
    told = {observe_pod(pod(container=state), None).trouble_message for state in states}
    words = {observe_pod(pod(container=state), None).trouble for state in states}
    assert (words, told) == ({"Error"}, {"no config.json in /models"})


def test_a_long_last_word_is_cut():
    terminated = {"reason": "Error", "message": "x" * 5000}
    observed = observe_pod(pod(container={"state": {"terminated": terminated}}), None)
    assert len(observed.trouble_message) == 1000


def newest(at_s: float = 100.0, **gauges: float) -> PodSample:
    return PodSample(at_s, {}, {}, {Gauge(name): value for name, value in gauges.items()})


def test_the_newest_scrape_goes_with_the_pod():
    scrape = observe_pod(
        pod(), newest(max_num_seqs=8, max_num_batched_tokens=512, in_flight=3, draining=0)
    ).scrape
    assert (scrape.at_s, scrape.limits, scrape.in_flight, scrape.draining) == (
        100.0,
        Limits(8, 512),
        3,
        False,
    )
    assert observe_pod(pod(), newest(max_num_seqs=8)).scrape.limits is None, "half a pair is none"
    assert observe_pod(pod(), newest()).scrape.draining is None


def test_limits_that_a_pod_confirmed_hold_until_a_scrape_from_after_it():
    scraped = {"max_num_seqs": 8, "max_num_batched_tokens": 512}
    told = (101.0, Limits(9, 600))
    assert observe_pod(pod(), newest(100.0, **scraped), told).scrape.limits == Limits(9, 600)
    assert observe_pod(pod(), newest(102.0, **scraped), told).scrape.limits == Limits(8, 512)


@pytest.mark.parametrize(
    ("status", "spec", "scrapable"),
    [
        ({"phase": "Running", "podIP": "10.0.0.1"}, {}, True),
        ({"phase": "Pending", "podIP": "10.0.0.1"}, {}, False),
        ({"phase": "Running"}, {}, False),
        ({"phase": "Running", "podIP": "192.0.2.1"}, {"hostNetwork": True}, False),
        ({"phase": "Succeeded", "podIP": "10.0.0.1"}, {}, False),
    ],
)
def test_only_a_running_engine_at_an_address_of_its_own_is_scraped(status, spec, scrapable):
    assert is_scrapable({**pod(status), "spec": spec}) is scrapable


@pytest.mark.parametrize("timestamp", [None, "", "yesterday", 5, {}])
def test_a_time_that_is_none_is_none(timestamp):
    assert unix_s(timestamp) is None


TEXT = b"""
# TYPE headrace_requests_received_total counter
headrace_requests_received_total{model_name="m"} 5
headrace_requests_received_total{model_name="n"} 2
# TYPE headrace_requests_finished_total counter
headrace_requests_finished_total{outcome="late"} 3
# TYPE headrace_queue_time_seconds histogram
headrace_queue_time_seconds_bucket{le="0.1"} 1
headrace_queue_time_seconds_bucket{le="1.0"} 4
headrace_queue_time_seconds_bucket{le="+Inf"} 5
headrace_queue_time_seconds_count 5
headrace_queue_time_seconds_sum 2.5
# TYPE headrace_time_to_first_token_seconds histogram
# TYPE headrace_step_budget_used_ratio histogram
headrace_step_budget_used_ratio_bucket{le="0.5"} 9
headrace_step_budget_used_ratio_bucket{le="1.0"} 2
headrace_step_budget_used_ratio_count 9
headrace_limit{name="max_num_seqs"} 8
headrace_limit{name="max_num_batched_tokens"} 512
"""


def test_a_scrape_is_reduced_to_what_decisions_are_made_of():
    found = sample(parse(TEXT, wanted=HEADRACE.wanted), metrics=HEADRACE, at_s=1.0)
    assert found.counters[Counter.ARRIVALS] == 7, "series are summed"
    assert found.counters[Counter.LATE] == 3
    assert found.counters[Counter.GOOD] == 0, "declared, and nothing counted yet"
    assert Counter.REJECTIONS not in found.counters, "not declared: not known"
    waits = found.distributions[Distribution.QUEUE_TIME]
    assert (waits.upper_edges, waits.counts, waits.total, waits.sum) == ((0.1, 1.0), (1, 4), 5, 2.5)
    assert found.distributions[Distribution.TTFT].total == 0
    assert Distribution.ITL not in found.distributions
    assert Distribution.STEP_BUDGET_USED not in found.distributions, "buckets that fall are no histogram"
    assert found.gauges == {Gauge.MAX_NUM_SEQS: 8, Gauge.MAX_NUM_BATCHED_TOKENS: 512}
