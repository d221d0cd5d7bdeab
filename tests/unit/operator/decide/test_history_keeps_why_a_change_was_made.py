"""A change is in force for a moment and then overwritten by what follows: the history keeps its reasons."""

from operator_builders import NOW_S, SETTINGS, observation, service, window

from headrace_operator.api.status_reading import read
from headrace_operator.api.units import time_text
from headrace_operator.decide.controller import decide


def overloaded_plan():
    """Requests wait though no limit binds: a replica is what helps."""
    previous = {"desiredReplicas": 1, "pressure": {"overloadedSince": time_text(NOW_S - 600)}}
    facts = observation(service(), recent=window(queue_s=3.0, ttft_s=4.0), previous=previous)
    return decide(facts, service(), settings=SETTINGS, now_s=NOW_S).status


def next_status(status, *, after_s=2.0):
    facts = observation(service(), recent=window(now_s=NOW_S + after_s), previous=status)
    return decide(facts, service(), settings=SETTINGS, now_s=NOW_S + after_s).status


def test_what_was_measured_and_what_was_considered_stay_after_the_next_decision():
    made = overloaded_plan()
    assert made["decision"]["action"] == "ScaleUp"
    assert made["decision"]["alternatives"], "raising a limit was considered"
    held = next_status(made)
    assert held["decision"]["action"] == "Hold"
    [change] = held["history"]
    assert change["action"] == "ScaleUp"
    assert change["alternatives"] == made["decision"]["alternatives"]
    assert change["inputs"] == made["decision"]["inputs"]


def test_they_survive_being_read_and_written_again():
    made = overloaded_plan()
    assert read(made).history == read(read(made).raw).history
    [change] = read(made).history
    assert [(item.action, item.word) for item in change.rejections] == [
        (item["action"], item["rejected"]) for item in made["history"][0]["alternatives"]
    ]


def test_a_forged_reason_is_left_out_and_the_change_stays():
    made = overloaded_plan()
    made["history"][0]["alternatives"] = [{"action": "Explode", "rejected": "No"}, 7, {"action": "ScaleUp"}]
    made["history"][0]["inputs"] = "all of them"
    [change] = read(made).history
    assert (change.rejections, change.inputs) == ((), ())
