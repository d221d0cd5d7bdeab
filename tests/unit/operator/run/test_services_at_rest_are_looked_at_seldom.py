"""A service at rest: nothing but an event or a request can change what was decided of it."""

import pytest
from operator_builders import NOW_S, deployment, observation, pod, service, window

from headrace_operator.api.spec import Invalid
from headrace_operator.decide.observation import Refused
from headrace_operator.decide.plan import Event, Plan
from headrace_operator.kube.kinds import Key
from headrace_operator.observe.sample import PodSample
from headrace_operator.run.rest import REST_INTERVALS, Rest, is_at_rest
from headrace_operator.runtimes.metric_map import Counter, Gauge

CHAT = Key("default", "chat")
SPEC = service()
IDLE = window(requests=0, running_per_pod=0.0, running_peak=0.0)


def seen(**changes):
    known = {"window": IDLE, "pods": (pod(),), "children": {"Deployment": deployment(1, spec=SPEC)}}
    return observation(SPEC, **{**known, **changes})


def sample(*, running: float = 0.0, arrivals: float | None = 7.0) -> PodSample:
    counters = {} if arrivals is None else {Counter.ARRIVALS: arrivals}
    return PodSample(NOW_S, counters, {}, {Gauge.RUNNING: running, Gauge.WAITING: 0.0})


@pytest.mark.parametrize("measured", [IDLE, None], ids=["idle", "never scraped"])
def test_ready_pods_without_a_request_are_at_rest(measured):
    assert is_at_rest(Plan(), seen(window=measured), SPEC)


@pytest.mark.parametrize("mode", ["Fixed", "External"])
def test_pinned_replicas_are_at_rest_whatever_their_number(mode):
    pinned = service({"scaling": {"mode": mode}})
    live = {"Deployment": deployment(2, spec=pinned)}
    assert is_at_rest(Plan(), seen(pods=(pod(), pod(1)), children=live), pinned)


@pytest.mark.parametrize(
    "changes",
    [
        {"window": window()},
        {"window": window(requests=0, running_per_pod=0.1, running_peak=1.0)},
        {"window": window(requests=0, running_per_pod=0.0, running_peak=0.0, waiting=1.0)},
        {"pods": (pod(ready=False),)},
        {"pods": ()},
        {"pods": (pod(), pod(1))},
        {"pods": (pod(deleting=True),)},
        {"pods": (pod(draining_since_s=NOW_S - 1),)},
        {"pods": (pod(is_left_alone=True),)},
        {"children": {}},
        {"refused": Refused("Forbidden", "no")},
        {
            "pods": (pod(), pod(1)),
            "children": {"Deployment": deployment(2, spec=SPEC)},
        },
    ],
    ids=[
        "requests",
        "one that runs",
        "one that waits",
        "a pod that loads",
        "a pod that is not there yet",
        "a pod too many",
        "a pod that leaves",
        "a pod that drains",
        "a pod still spared",
        "no Deployment yet",
        "a right that is missing",
        "more replicas than the least",
    ],
)
def test_whatever_may_change_by_itself_is_not_at_rest(changes):
    assert not is_at_rest(Plan(), seen(**changes), SPEC)


@pytest.mark.parametrize(
    "plan",
    [Plan(status={}), Plan(objects=({},)), Plan(events=(Event("Normal", "A", "a"),)), Plan(wake_after_s=2.0)],
)
def test_what_was_just_moved_is_not_at_rest(plan):
    assert not is_at_rest(plan, seen(), SPEC)


def test_a_spec_that_cannot_be_read_is_not_at_rest():
    assert not is_at_rest(Plan(), seen(), Invalid("default", "chat", "uid", 1, "InvalidSpec", "no"))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (sample(), sample(running=1.0)),
        (sample(), sample(arrivals=8.0)),
        (sample(arrivals=None), sample()),
        (None, sample()),
    ],
    ids=["one that runs", "one that came and went", "a count that begins", "the first scrape"],
)
def test_the_first_sign_of_work_wakes_it_once(before, now):
    woken: list[Key] = []
    rest = Rest(woken.append)
    assert rest.intervals(CHAT, at_rest=True) == REST_INTERVALS
    rest.scraped(CHAT, before, now)
    rest.scraped(CHAT, now, sample(running=2.0))
    assert woken == [CHAT]


def test_scrapes_wake_nobody_who_is_idle_at_work_or_gone():
    woken: list[Key] = []
    rest = Rest(woken.append)
    rest.intervals(CHAT, at_rest=True)
    rest.scraped(CHAT, sample(), sample())
    assert rest.intervals(CHAT, at_rest=False) == 1
    rest.scraped(CHAT, sample(), sample(running=1.0))
    rest.intervals(CHAT, at_rest=True)
    rest.forget(CHAT)
    rest.scraped(CHAT, sample(), sample(running=1.0))
    assert woken == []
