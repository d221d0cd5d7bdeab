"""Decisions closed over a world that answers: hours of load in a second, nothing random."""

from itertools import pairwise

import pytest
from operator_builders import NOW_S, service
from operator_plant import Plant

from headrace_operator.api.status_reading import read
from headrace_operator.api.vocabulary import Action


def changes(plant):
    """Every applied change, oldest first."""
    seen = {}
    for _, plan in plant.plans:
        for change in read(plan.status).history if plan.status else ():
            seen.setdefault(change.id, change)
    return sorted(seen.values(), key=lambda change: change.at_s)


def reversals(found, value):
    moves = [value(change.after) - value(change.before) for change in found]
    signs = [move > 0 for move in moves if move]
    return sum(one != other for one, other in pairwise(signs))


def settled(plant, after_s):
    return [change for change in changes(plant) if change.at_s > NOW_S + after_s]


@pytest.mark.parametrize("rate", [0.5, 5.0, 12.0])
def test_constant_load_for_an_hour_comes_to_rest_without_a_reversal(rate):
    plant = Plant(service(), load=lambda _: rate).run(3600)
    assert settled(plant, 1200) == []
    assert reversals(changes(plant), lambda setting: setting.replicas) == 0
    assert reversals(changes(plant), lambda setting: setting.limits.max_num_seqs) == 0
    assert plant.broken == 0


def test_a_burst_adds_replicas_and_its_end_removes_them_without_a_broken_stream():
    plant = Plant(service(), load=lambda t: 8.0 if 60 <= t < 400 else 0.2).run(1200)
    peak = max(change.after.replicas for change in changes(plant))
    assert peak >= 3
    assert len(plant.engines) == 1
    assert plant.broken == 0
    assert read(plant.status).desired_replicas == 1


@pytest.mark.parametrize(("rate", "least"), [(6.0, 2), (12.0, 4), (20.0, 6)])
def test_a_jump_of_load_buys_what_it_needs_at_once_and_no_more_while_the_queue_drains(rate, least):
    """A replica ends 3.8 requests a second. What waits when others come waits in the one that was alone."""
    plant = Plant(service({"scaling": {"maxReplicas": 12}}), load=lambda _: rate).run(900)
    counts = [change.after.replicas for change in changes(plant) if change.action is Action.SCALE_UP]
    assert counts[0] >= min(least, 5) - 1, "as many as one step adds"
    assert least <= max(counts) <= least + 1


def test_tokens_too_slow_lower_the_batch_until_they_are_fast_enough():
    spec = service({"scaling": {"mode": "Fixed"}, "slo": {"itl": "120ms", "ttft": "30s"}})
    plant = Plant(spec, load=lambda _: 2.4).run(900)
    assert {change.action for change in changes(plant)} <= {Action.LOWER_SEQ_LIMIT, Action.RAISE_SEQ_LIMIT}
    final = read(plant.status).limits
    assert 0.05 + 0.01 * final.max_num_seqs <= 0.13
    assert settled(plant, 600) == []


def test_a_limit_left_too_low_is_raised_before_a_replica_is_bought():
    plant = Plant(service(), load=lambda _: 2.0)
    plant.status = {
        "desiredReplicas": 1,
        "activeLimits": {"maxNumSeqs": 3, "maxNumBatchedTokens": 512, "since": "2027-01-15T07:00:00Z"},
    }
    plant.run(600)
    found = changes(plant)
    assert found[0].action is Action.RAISE_SEQ_LIMIT
    assert read(plant.status).limits.max_num_seqs > 3


def test_recommendations_touch_nothing():
    spec = service({"scaling": {"mode": "Recommend"}, "tuning": {"mode": "Recommend"}})
    plant = Plant(spec, load=lambda _: 8.0).run(300)
    assert changes(plant) == []
    assert len(plant.engines) == 1
    assert plant.status["recommendation"]["action"] == Action.SCALE_UP
    assert plant.status["decision"]["applied"] is False


def test_a_new_operator_takes_over_from_the_status_alone():
    plant = Plant(service(), load=lambda _: 8.0).run(600)
    before = read(plant.status)
    plant.samples.clear()
    plant.run(60)
    after = read(plant.status)
    assert (after.desired_replicas, after.limits) == (before.desired_replicas, before.limits)


def test_carrying_a_plan_out_leaves_nothing_to_do():
    plant = Plant(service(), load=lambda t: 8.0 if t < 200 else 0.2)
    for _ in range(120):
        plant.run(5)
        plant.reconcile()
        plant.reconcile()  # counts the pods that the first one made
        again = plant.reconcile()
        assert again.is_empty, again
        assert again.events == ()
