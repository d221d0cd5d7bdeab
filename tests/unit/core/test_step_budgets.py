"""Budgets of a step beyond tokens: predicted milliseconds, and how many prefills are under way."""

import pytest

from headrace_engine.core.plan import Hold
from headrace_engine.core.step_model import Forecast, StepModel, StepWork

MODEL = StepModel(
    base_s=0.002, weights_s=0.003, token_s=0.001, context_token_s=0.0001, attention_token_s=0.0001
)


def test_the_model_adds_what_a_step_reads_and_computes():
    assert MODEL.predict_s(StepWork()) == pytest.approx(0.005)
    assert MODEL.predict_s(StepWork(tokens=2)) == pytest.approx(0.005)
    assert MODEL.predict_s(StepWork(10, 50, 20.0)) == pytest.approx(0.002 + 0.010 + 0.005 + 0.002)


def test_the_largest_chunk_within_a_time_is_found():
    work, forecast = StepWork(tokens=4), Forecast(MODEL)
    chunk = forecast.chunk_within(work, 100, 64, 0.020)
    assert (
        MODEL.predict_s(work.with_chunk(100, chunk))
        <= 0.020
        < MODEL.predict_s(work.with_chunk(100, chunk + 1))
    )
    assert forecast.chunk_within(work, 100, 1, 1.0) == 1
    assert forecast.chunk_within(work, 100, 64, 0.001) == 0


def test_a_chunk_stays_within_what_the_model_is_believed_about():
    reach = StepWork(tokens=20, prefill_attention_tokens=1000.0)
    forecast = Forecast(MODEL, reach)
    assert forecast.chunk_within(StepWork(tokens=4), 0, 64, 60.0) == 16
    assert forecast.chunk_within(StepWork(tokens=4), 95, 64, 60.0) == 10


def test_a_prefill_takes_only_the_time_that_decodes_leave(make_loop):
    loop = make_loop(step_model=MODEL, max_step_ms=20)
    loop.submit("chat", 4)
    loop.step()
    loop.submit("book", 60)
    plan = loop.plan()
    assert 1 < len(plan.rows[1].token_ids) < 60
    assert MODEL.predict_s(plan.work) <= 0.020
    assert plan.hold is None


def test_however_little_time_is_left_one_prefill_makes_the_step_a_tenth_longer(make_loop):
    model = StepModel(base_s=0.090, weights_s=0.0, token_s=0.001, sampled_row_s=0.009)
    loop = make_loop(step_model=model, max_step_ms=1)
    loop.submit("chat", 1)
    loop.step()
    loop.submit("book", 25)
    assert loop.step() == {"chat": 1, "book": 10}
    assert loop.step() == {"chat": 1, "book": 10}
    assert loop.step() == {"chat": 1, "book": 5}


def test_where_a_tenth_longer_is_less_than_a_token_it_is_a_token(make_loop):
    loop = make_loop(step_model=StepModel(0.0, 0.0, 1.0), max_step_ms=1)
    loop.submit("chat", 1)
    loop.step()
    loop.submit("book", 2)
    loop.submit("next", 1)
    assert loop.step() == {"chat": 1, "book": 1}
    assert loop.step() == {"chat": 1, "book": 1}
    assert loop.step() == {"chat": 1, "book": 1, "next": 1}


def test_without_a_model_steps_start_small_and_grow_to_what_the_time_allows(make_loop):
    """Each step of this loop takes 10 ms, whatever is in it."""
    loop = make_loop(max_step_ms=11, max_num_batched_tokens=512)
    loop.submit("book", 600)
    chunks = [loop.step()["book"] for _ in range(3)]
    assert chunks[0] == 32
    assert chunks == sorted(chunks)
    assert chunks[2] > 64
    assert loop.scheduler.step_model.predict_s(StepWork(1)) == pytest.approx(0.01, abs=0.005)


def test_what_decodes_cost_is_asked_for_where_prompts_never_pause(make_loop):
    loop = make_loop(max_step_ms=12, max_num_batched_tokens=128, num_blocks=4096)
    loop.submit("chat", 1, max_tokens=200)
    loop.step()
    for _ in range(40):
        loop.submit(f"book {len(loop.requests)}", 600, max_tokens=1)
    steps = [loop.step() for _ in range(100)]
    assert all(step["chat"] == 1 for step in steps)
    assert 2 <= sum(len(step) == 1 for step in steps) <= 12


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
