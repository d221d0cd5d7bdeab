"""The marks that node autoscalers read: set while minutes would be lost, and gone afterwards."""

import pytest
from operator_builders import NOW_S, SETTINGS, observation, pod, service

from headrace_operator.api.names import LEFT_ALONE
from headrace_operator.decide.controller import decide


def marks(*pods, spec=None, **seen):
    known = spec or service()
    plan = decide(observation(known, pods=pods, **seen), known, settings=SETTINGS, now_s=NOW_S)
    return {mark.pod_name: dict(mark.annotations) for mark in plan.annotate}


LOADING, SERVING = {"ready": False}, {"ready": True}
BROKEN = {"ready": False, "trouble": "Error"}


@pytest.mark.parametrize(
    ("state", "is_left_alone", "expected"),
    [
        (LOADING, False, LEFT_ALONE),
        (LOADING, True, None),
        (SERVING, True, {}),
        (SERVING, False, None),
        (BROKEN, True, {}),
        (BROKEN, False, None),
    ],
    ids=["loads", "loads on", "serves", "serves on", "breaks", "is broken"],
)
def test_a_pod_is_spared_while_it_loads_and_no_longer(state, is_left_alone, expected):
    one = pod(0, is_left_alone=is_left_alone, **state)
    assert marks(one) == ({} if expected is None else {one.name: expected})


def test_a_pod_is_spared_while_it_drains_even_if_it_has_just_loaded():
    fresh = pod(1, is_left_alone=True)
    found = marks(
        pod(0, is_left_alone=False), fresh, spec=service({"replicas": 0}), previous={"desiredReplicas": 2}
    )
    assert len(found) == 2
    for annotations in found.values():
        assert annotations.items() >= LEFT_ALONE.items()
        assert "headrace.dev/draining" in annotations


def test_a_pod_that_drains_is_left_as_it_is_marked():
    draining = pod(1, draining_since_s=NOW_S - 30, is_left_alone=True)
    assert marks(pod(0), draining, deployed=2, previous={"desiredReplicas": 1}) == {}
