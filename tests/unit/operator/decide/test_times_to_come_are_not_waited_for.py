"""A status may hold times that are still to come: a leader's clock was ahead, or one is forged. Each counts
as now, and is written so; none blinds or holds a service until it has come.
"""

import re

import pytest
from operator_builders import NOW_S, SETTINGS, observation, pod, service, window

from headrace_operator.api.units import time_s
from headrace_operator.decide.controller import decide

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
FAR = "2999-01-01T00:00:00Z"
SETTING = {"replicas": 3, "maxNumSeqs": 16, "maxNumBatchedTokens": 512}
REMOVED = {
    "id": "1f3c0000",
    "at": FAR,
    "action": "ScaleDown",
    "reason": "HeadroomExcess",
    "message": "fewer",
    "generation": 1,
    "before": {**SETTING, "replicas": 4},
    "after": SETTING,
}
IDLE = {"running_per_pod": 0.5, "running_peak": 1.0, "kv_used_ratio": 0.02, "itl_s": 0.02}
SWAMPED = {"queue_s": 9.0, "ttft_s": 9.0, "itl_s": 0.19, "running_per_pod": 16.0, "running_peak": 16.0}


def times_in(document):
    """Every time in it."""
    if isinstance(document, str):
        return [document] if TIME.match(document) else []
    if isinstance(document, dict):
        document = list(document.values())
    return [found for value in document for found in times_in(value)] if isinstance(document, list) else []


def far(document):
    """The same with each time in it far ahead."""
    if isinstance(document, dict):
        return {name: far(value) for name, value in document.items()}
    if isinstance(document, list):
        return [far(value) for value in document]
    return FAR if isinstance(document, str) and TIME.match(document) else document


def look(previous, seen, *, later_s=0.0, **facts):
    spec = service({"tuning": {"mode": "Off"}})
    now_s = NOW_S + later_s
    recent = window(now_s=now_s, pods_reporting=3, pods_expected=3, **seen)
    pods = [pod(number) for number in range(3)]
    known = observation(spec, pods=pods, recent=recent, previous=previous, **facts)
    return decide(known, spec, settings=SETTINGS, now_s=now_s).status or previous


@pytest.mark.parametrize("seen", [IDLE, SWAMPED, {}])
@pytest.mark.parametrize("facts", [{}, {"scaled_by": "kubectl"}])
def test_none_is_written_on(seen, facts):
    levels = [{"replicas": 2, "since": FAR}, {"replicas": 1, "since": FAR}]
    pressure = {"overloadedSince": FAR, "enough": levels, "scaledDownAt": FAR}
    known = look({"desiredReplicas": 3, "pressure": pressure, "history": [REMOVED]}, seen, **facts)
    ahead = far(known)
    written = look(ahead, seen, **facts)
    assert times_in(written)
    assert [found for found in times_in(written) if time_s(found) > NOW_S] == []


@pytest.mark.parametrize(("seen", "action"), [(IDLE, "ScaleDown"), (SWAMPED, "ScaleUp")])
def test_the_service_is_scaled_as_if_it_had_just_happened(seen, action):
    """After the stabilization and the period of a removal from now on."""
    status = {"desiredReplicas": 3, "pressure": {"overloadedSince": FAR, "scaledDownAt": FAR}}
    for later_s in range(0, 180, 10):
        status = look(status, seen, later_s=later_s)
        if status["desiredReplicas"] != 3:
            break
    assert status["history"][0]["action"] == action
    assert later_s >= (120 if action == "ScaleDown" else 20), "and no sooner"


def test_another_s_hand_is_not_left_its_number_until_then():
    status = look({"desiredReplicas": 3}, {}, scaled_by="kubectl")
    status = far(look(status, {}, later_s=5, scaled_by="kubectl"))
    reasons = set()
    for later_s in range(10, 700, 30):
        status = look(status, {}, later_s=later_s)
        reasons |= {found["reason"] for found in status["conditions"] if found["type"] == "Conflict"}
    assert reasons == {"ScaledAgain", "NoConflict"}


def test_what_is_measured_is_written_on():
    """Nothing else moves: the time of the last measurement alone says whether it is old."""
    status = look({"desiredReplicas": 3}, {})
    ahead = {**status, "observed": {**status["observed"], "at": FAR}}
    assert look(ahead, {})["observed"]["at"] == status["observed"]["at"]
