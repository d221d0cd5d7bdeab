"""Budgets of a step beyond tokens: predicted milliseconds, and how many prefills are under way."""

import pytest

from headrace_engine.core.plan import Hold
from headrace_engine.core.step import LEAST_CHUNK_TOKENS
from headrace_engine.core.step_model import StepModel, StepWork

MODEL = StepModel(
    base_s=0.002, weights_s=0.003, token_s=0.001, context_token_s=0.0001, attention_token_s=0.0001
)


def test_the_model_adds_what_a_step_reads_and_computes():
    assert MODEL.predict_s(StepWork()) == pytest.approx(0.005)
    assert MODEL.predict_s(StepWork(tokens=2)) == pytest.approx(0.005)
    assert MODEL.predict_s(StepWork(10, 50, 20.0)) == pytest.approx(0.002 + 0.010 + 0.005 + 0.002)


def test_the_largest_chunk_within_a_time_is_found():
    work = StepWork(tokens=4)
    chunk = MODEL.chunk_within(work, 100, 64, 0.020)
    assert (
        MODEL.predict_s(work.with_chunk(100, chunk))
        <= 0.020
        < MODEL.predict_s(work.with_chunk(100, chunk + 1))
    )
    assert MODEL.chunk_within(work, 100, 1, 1.0) == 1
    assert MODEL.chunk_within(work, 100, 64, 0.001) == 0


def test_a_prefill_takes_only_the_time_that_decodes_leave(make_loop):
    loop = make_loop(step_model=MODEL, max_step_ms=20)
    loop.submit("chat", 4)
    loop.step()
    loop.submit("book", 60)
    plan = loop.plan()
    assert 1 < len(plan.rows[1].token_ids) < 60
    assert MODEL.predict_s(plan.work) <= 0.020
    assert plan.hold is None


def test_however_little_time_is_left_one_prefill_goes_on(make_loop):
    loop = make_loop(step_model=MODEL, max_step_ms=1)
    loop.submit("chat", 4)
    loop.submit("book", 2 * LEAST_CHUNK_TOKENS + 1)
    assert loop.step() == {"chat": 4}
    assert loop.step() == {"chat": 1, "book": LEAST_CHUNK_TOKENS}
    assert loop.step() == {"chat": 1, "book": LEAST_CHUNK_TOKENS}
    assert loop.step() == {"chat": 1, "book": 1}


def test_without_a_model_milliseconds_limit_nothing_until_steps_have_taught_one(make_loop):
    """Each step of this loop takes 10 ms, whatever is in it."""
    loop = make_loop(max_step_ms=9)
    loop.submit("book", 60, max_tokens=20)
    assert loop.step() == {"book": 60}
    loop.steps(18)
    assert loop.scheduler.step_model.predict_s(StepWork(1)) == pytest.approx(0.01, abs=0.001)
    loop.submit("next", 60)
    assert loop.step()["next"] == LEAST_CHUNK_TOKENS


def test_only_so_many_prefills_are_under_way(make_loop):
    loop = make_loop(long_prefill_token_threshold=4, max_num_partial_prefills=2)
    for request_id in "abc":
        loop.submit(request_id, 10, max_tokens=1)
    plan = loop.plan()
    loop.commit(plan)
    assert [row.request_id for row in plan.rows] == ["a", "b"]
    assert plan.hold is Hold.PARTIAL
    loop.step()
    assert loop.step() == {"a": 2, "b": 2, "c": 4}


def test_a_late_chunk_of_a_long_prompt_attends_to_more():
    assert StepWork().with_chunk(0, 10) == StepWork(10, 0, 50.0)
    assert StepWork(3, 7, 50.0).with_chunk(100, 10) == StepWork(13, 7, 1100.0)
