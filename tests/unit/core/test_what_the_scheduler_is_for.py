"""The claims of docs/scheduler.md, on a step model and a fake clock, so that they hold or fail the same way
everywhere. `tests/bench/scheduling_claims.py` measures them on a real model.
"""

from dataclasses import replace

import pytest
from scheduler_drive import modelled
from scheduler_flood import CAPACITY, QUIET_SHAPES, Scenario
from scheduler_flood import FLOOD_SHAPES as FLOODS
from scheduler_scenarios import lowered_and_raised, stream_itl_s

from headrace_engine.core.policies import PolicyName
from headrace_engine.core.step_model import StepModel, StepWork

MODEL = StepModel(base_s=0.002, weights_s=0.020, token_s=0.0008, context_token_s=2e-7, attention_token_s=1e-8)
STEP_S = MODEL.predict_s(StepWork(tokens=1))
COMPUTE = modelled(MODEL)


FLOODED = Scenario(COMPUTE, STEP_S, MODEL.token_s, count=40)


@pytest.mark.parametrize("quiet", QUIET_SHAPES)
def test_a_flood_of_any_kind_leaves_another_tenants_ttft_within_half_more(quiet: str):
    """By `fair` alone, p95 against p95; the whole table, with what it was chosen from: docs/scheduler.md."""
    alone_s = FLOODED.p95_s(QUIET_SHAPES[quiet])
    beside = {name: FLOODED.p95_s(QUIET_SHAPES[quiet], flood) / alone_s for name, flood in FLOODS.items()}
    assert max(beside.values()) <= 1.5, beside


@pytest.mark.parametrize("flood", FLOODS)
def test_on_few_slots_short_questions_take_more_than_half_of_them_while_they_are_behind(flood: str):
    """Their answers alone take half of eight slots; beside a flood that holds the rest, 1.59 without that."""
    few = replace(FLOODED, capacity=replace(CAPACITY, max_num_seqs=8), count=60)
    quiet = QUIET_SHAPES["questions"]
    assert few.p95_s(quiet, FLOODS[flood]) <= 1.3 * few.p95_s(quiet)


def test_without_fair_shares_a_flood_makes_others_wait_for_its_whole_queue():
    quiet, flood = QUIET_SHAPES["chat"], FLOODS["chat"]
    assert FLOODED.p95_s(quiet, flood, policy=PolicyName.FCFS) > 20 * FLOODED.p95_s(quiet)


def test_long_prompts_leave_the_itl_of_streams_where_it_was():
    idle_s, _ = stream_itl_s(COMPUTE, STEP_S, bursts=False)
    chunked_s, _ = stream_itl_s(COMPUTE, STEP_S, max_num_batched_tokens=32)
    timed_s, _ = stream_itl_s(COMPUTE, STEP_S, max_step_ms=int(1000 * 1.25 * idle_s), step_model=MODEL)
    learned_s, _ = stream_itl_s(COMPUTE, STEP_S, max_step_ms=int(1000 * 1.25 * idle_s))
    unchunked_s, _ = stream_itl_s(COMPUTE, STEP_S)
    assert chunked_s <= 1.3 * idle_s
    assert timed_s <= 1.3 * idle_s
    assert learned_s <= 1.3 * idle_s
    assert unchunked_s > 3 * idle_s


def test_static_batches_make_prompts_wait_for_the_whole_batch():
    _, continuous_s = stream_itl_s(COMPUTE, STEP_S, max_num_batched_tokens=32)
    _, static_s = stream_itl_s(COMPUTE, STEP_S, static=True)
    assert static_s > 5 * continuous_s


def test_lowering_and_raising_max_num_seqs_under_load_loses_nothing_within_two_steps():
    drive, admitted, rows = lowered_and_raised(COMPUTE)
    assert admitted
    assert not any(admitted), "nobody is admitted from the first step on"
    assert rows[0] == 32, "the first step after it was raised is full"
    assert drive.seen["all"].num_finished == drive.num_submitted == 64
