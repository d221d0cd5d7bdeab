"""However load comes and goes and whenever the operator starts anew: no step is too large, none too soon."""

import math
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from operator_builders import service
from operator_plant import Plant

from headrace_operator.api.status_reading import read
from headrace_operator.api.vocabulary import Action

LOOK_S, LIFE_S = 10.0, 600.0


@st.composite
def paces(draw):
    up = {
        "stabilization": draw(st.sampled_from(["0s", "20s"])),
        "maxStepPods": draw(st.integers(1, 3)),
        "maxStepPercent": draw(st.sampled_from([0, 50, 150])),
    }
    down = {
        "stabilization": draw(st.sampled_from(["0s", "30s"])),
        "maxStepPods": draw(st.integers(1, 3)),
        "period": draw(st.sampled_from(["0s", "40s", "2m"])),
    }
    scaling = {"maxReplicas": 8, "scaleUp": up, "scaleDown": down}
    return service({"scaling": scaling, "slo": {"window": "20s"}, "tuning": {"interval": "10s"}})


loads = st.lists(st.sampled_from([0.1, 3.0, 15.0, 30.0]), min_size=3, max_size=6)
restarts = st.lists(st.integers(1, int(LIFE_S // LOOK_S) - 1), max_size=3)


@settings(max_examples=12)
@given(paces(), loads, restarts)
def test_no_step_is_larger_and_none_sooner_than_the_spec_says(spec, rates, restarts):
    plant = Plant(spec, load=lambda t: rates[int(t // (LIFE_S / len(rates))) % len(rates)], answer_tokens=4)
    for look in range(int(LIFE_S // LOOK_S)):
        if look in restarts:
            plant.samples.clear()  # all that an operator holds in memory
        plant.run(LOOK_S, reconcile_every_s=LOOK_S)
    made = {c.id: c for _, plan in plant.plans if plan.status for c in read(plan.status).history}
    moves = sorted(made.values(), key=lambda change: change.at_s)
    for change in moves:
        before, after = change.before.replicas, change.after.replicas
        up, down = spec.scaling.scale_up, spec.scaling.scale_down
        assert after - before <= max(up.step_pods, math.ceil(up.step_ratio * before))
        assert before - after <= down.step_pods
    removals = [change.at_s for change in moves if change.action is Action.SCALE_DOWN]
    assert all(later - sooner >= spec.scaling.scale_down.period_s for sooner, later in pairwise(removals))
