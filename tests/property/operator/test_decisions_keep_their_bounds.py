"""What holds of every decision, whatever was observed and whatever stands in the status."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from operator_builders import NOW_S, SETTINGS
from operator_strategies import observations, service_of, somebody_elses, spec_documents

from headrace_operator.api.spec import ScalingMode, TuningMode
from headrace_operator.api.status_resource import StatusPart
from headrace_operator.api.vocabulary import Action, Reason
from headrace_operator.decide.assess import assess
from headrace_operator.decide.controller import decide
from headrace_operator.decide.modes import mandate
from headrace_operator.decide.verdict import verdict
from headrace_operator.runtimes.registry import adapter

ORDERED = {Reason.AT_MIN, Reason.AT_MAX, Reason.PINNED_BY_USER, Reason.FIXED_BY_SPEC}


@st.composite
def cases(draw, *, others=False):
    document = draw(spec_documents())
    seen = draw(observations(document))
    return service_of(document), somebody_elses(draw, seen) if others else seen


def decided(spec, observation, *, asked=None):
    situation = assess(observation, spec, scrape_interval_s=2.0, now_s=NOW_S)
    return situation, verdict(situation, mandate(spec, situation.conflict), asked)


@given(cases())
def test_replicas_stay_between_min_and_max_or_where_they_are_pinned(case):
    spec, observation = case
    _, found = decided(spec, observation)
    if spec.replicas is not None:
        assert found.setting.replicas == spec.replicas
    elif spec.scaling.mode in {ScalingMode.AUTO, ScalingMode.RECOMMEND}:
        assert spec.scaling.min_replicas <= found.setting.replicas <= spec.scaling.max_replicas


@given(cases())
def test_limits_stay_inside_their_bounds_and_never_above_capacity(case):
    spec, observation = case
    _, found = decided(spec, observation)
    capacity, limits = spec.engine.capacity, found.setting.limits
    if spec.tuning.mode is TuningMode.OFF or not adapter(spec.engine.runtime).changes_limits_live:
        assert (limits.max_num_seqs, limits.max_num_batched_tokens) == (
            capacity.max_num_seqs,
            capacity.max_num_batched_tokens,
        )
        return
    assert spec.tuning.max_num_seqs.low <= limits.max_num_seqs <= spec.tuning.max_num_seqs.high
    assert limits.max_num_seqs <= capacity.max_num_seqs
    assert limits.max_num_batched_tokens <= capacity.max_num_batched_tokens
    assert limits.max_num_batched_tokens >= spec.tuning.max_num_batched_tokens.low


@given(cases())
def test_one_decision_moves_one_knob_by_no_more_than_allowed(case):
    spec, observation = case
    situation, found = decided(spec, observation)
    if found.change is None or found.change.action is Action.ROLL_BACK_LIMITS:
        return
    before, after = found.change.before, found.change.after
    moved = [
        before.replicas != after.replicas,
        before.limits.max_num_seqs != after.limits.max_num_seqs,
        before.limits.max_num_batched_tokens != after.limits.max_num_batched_tokens,
    ]
    assert sum(moved) == 1
    if found.change.action in {Action.RAISE_SEQ_LIMIT, Action.RAISE_BUDGET}:
        for old, new in (
            (before.limits.max_num_seqs, after.limits.max_num_seqs),
            (before.limits.max_num_batched_tokens, after.limits.max_num_batched_tokens),
        ):
            assert new <= max(old + 1, math.floor(old * (1 + spec.tuning.max_change_ratio)))
    if found.change.action is Action.LOWER_SEQ_LIMIT:
        in_use = min(before.limits.max_num_seqs, math.ceil(situation.load.running_peak or 1e9))
        assert after.limits.max_num_seqs >= math.floor(in_use * (1 - spec.tuning.max_change_ratio))


@given(cases())
def test_without_data_nothing_is_taken_away(case):
    spec, observation = case
    situation, found = decided(spec, observation)
    if situation.load is not None or spec.replicas is not None:
        return
    assert found.setting.limits == situation.setting.limits
    assert found.setting.replicas == situation.setting.replicas


@given(cases())
def test_recommend_decides_what_auto_does_and_touches_nothing(case):
    spec, observation = case
    auto = replace(
        spec,
        scaling=replace(spec.scaling, mode=ScalingMode.AUTO),
        tuning=replace(spec.tuning, mode=TuningMode.AUTO),
    )
    only = replace(
        spec,
        scaling=replace(spec.scaling, mode=ScalingMode.RECOMMEND),
        tuning=replace(spec.tuning, mode=TuningMode.RECOMMEND),
    )
    situation, acting = decided(auto, observation)
    _, advising = decided(only, observation)
    assert advising.setting == situation.setting
    if situation.previous.desired_replicas in {None, situation.setting.replicas}:
        advice = advising.recommended.decision
        assert advice.action == acting.decision.action
        assert advice.after == acting.setting
        assert advice.message == acting.decision.message


@given(cases())
def test_an_approval_does_what_auto_does(case):
    """Where both are recommended, and the spec orders nothing else."""
    spec, observation = case
    auto, only = (
        replace(
            spec,
            scaling=replace(spec.scaling, mode=scales),
            tuning=replace(spec.tuning, mode=tunes),
        )
        for scales, tunes in (
            (ScalingMode.AUTO, TuningMode.AUTO),
            (ScalingMode.RECOMMEND, TuningMode.RECOMMEND),
        )
    )
    situation, acting = decided(auto, observation)
    _, approved = decided(only, observation, asked="next")
    if situation.previous.desired_replicas not in {None, situation.setting.replicas}:
        return
    if acting.change is None or adapter(spec.engine.runtime).changes_limits_live:
        assert approved.setting == acting.setting
        assert (approved.approval is not None) == (acting.change is not None)


@given(cases())
def test_a_step_is_no_larger_and_no_sooner_than_the_spec_says(case):
    spec, observation = case
    situation, found = decided(spec, observation)
    if found.change is None or found.change.reason in ORDERED:
        return
    before, after = found.change.before.replicas, found.change.after.replicas
    up, down, removed_s = (
        spec.scaling.scale_up,
        spec.scaling.scale_down,
        situation.previous.scaled_down_at_s,
    )
    assert after - before <= max(up.step_pods, math.ceil(up.step_ratio * before))
    assert before - after <= down.step_pods
    assert after >= before or removed_s is None or NOW_S - removed_s >= down.period_s


@given(cases(others=True))
def test_a_written_status_is_what_the_schema_describes(case):
    spec, observation = case
    plan = decide(observation, spec, settings=SETTINGS, now_s=NOW_S)
    if plan.status is None:
        return
    assert StatusPart.model_validate(plan.status).model_dump(by_alias=True, exclude_none=True) == dict(
        plan.status
    )


@given(cases(others=True))
def test_the_same_facts_give_the_same_plan(case):
    spec, observation = case
    plans = [decide(observation, spec, settings=SETTINGS, now_s=NOW_S) for _ in range(2)]
    assert plans[0] == plans[1]
