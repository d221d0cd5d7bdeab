"""A step model learned from steps: soon, through noise and pauses, and without forgetting what it needs."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_engine.core.step_learner import StepLearner
from headrace_engine.core.step_model import StepModel, StepWork

TRUE = StepModel(base_s=0.012, weights_s=0.0, token_s=0.0008, sampled_row_s=0.0003)
DECODES = StepWork(8, 800, 0.0, 8)
MIXED, LONG = DECODES.with_chunk(0, 16), DECODES.with_chunk(0, 256)


def teach(learner: StepLearner, work: StepWork, duration_s: float | None = None, prompts: int = 0) -> None:
    seen_s = TRUE.predict_s(work) if duration_s is None else duration_s
    learner.observe(work, seen_s, num_prefill_tokens=prompts)


def taught(num_steps: int, *, pauses: bool = False) -> StepLearner:
    """Decodes, and a long prompt every twenty steps; each step within some 5 %, and now and then a pause."""
    chance, learner = random.Random(1), StepLearner()
    for number in range(num_steps):
        work, prompts = (DECODES, 0) if number % 20 else (LONG, 256)
        pause = 10 if pauses and number % 97 == 50 else 1
        teach(learner, work, TRUE.predict_s(work) * (1 + chance.gauss(0, 0.05)) * pause, prompts)
    return learner


def test_nothing_is_known_before_the_first_step_and_little_is_tried():
    learner = StepLearner()
    assert learner.model is None
    assert learner.forecast().chunk_within(DECODES, 0, 2048, 0.025) == 32 - DECODES.tokens


def test_nobody_computes_far_more_than_was_seen_lately():
    learner = StepLearner()
    for _ in range(100):
        teach(learner, MIXED, prompts=16)
    assert learner.forecast().chunk_within(DECODES, 0, 2048, 3600.0) == 2 * MIXED.tokens - DECODES.tokens
    teach(learner, LONG, prompts=256)
    assert learner.forecast().chunk_within(DECODES, 0, 256, 3600.0) == 256
    for _ in range(1000):
        teach(learner, MIXED, prompts=16)
    assert learner.forecast().chunk_within(DECODES, 0, 2048, 3600.0) == 2 * MIXED.tokens - DECODES.tokens


@pytest.mark.parametrize("pauses", [False, True])
def test_short_and_long_steps_are_predicted_through_noise_and_pauses(pauses):
    model = taught(400, pauses=pauses).model
    assert model.predict_s(DECODES) == pytest.approx(TRUE.predict_s(DECODES), rel=0.1)
    assert model.predict_s(LONG) == pytest.approx(TRUE.predict_s(LONG), rel=0.1)


@pytest.mark.parametrize("alike", [DECODES, MIXED])
def test_steps_that_are_all_alike_do_not_make_a_token_free(alike):
    learner = taught(400)
    for _ in range(4000):
        teach(learner, alike, prompts=alike.tokens - 8)
    assert learner.model.predict_s(LONG) == pytest.approx(TRUE.predict_s(LONG), rel=0.2)


def test_what_goes_beyond_the_decodes_is_put_on_the_prompts():
    """A burst after a long time of decodes alone, nothing known of prompts: decodes stay what they were."""
    chance, learner = random.Random(2), StepLearner()
    for number in range(400):
        work = DECODES if number < 300 else MIXED
        noisy_s = TRUE.predict_s(work) * (1 + chance.gauss(0, 0.05))
        teach(learner, work, noisy_s, work.tokens - 8)
        if number > 303:
            assert learner.model.predict_s(DECODES) == pytest.approx(TRUE.predict_s(DECODES), rel=0.1)
            assert learner.model.predict_s(MIXED) == pytest.approx(TRUE.predict_s(MIXED), rel=0.1)


@pytest.mark.parametrize("ratio", [0.5, 2, 4])
def test_an_engine_that_became_slower_or_faster_is_seen_within_a_few_steps(ratio):
    learner = taught(400)
    for _ in range(8):
        teach(learner, DECODES, ratio * TRUE.predict_s(DECODES))
    assert learner.model.predict_s(DECODES) == pytest.approx(ratio * TRUE.predict_s(DECODES), rel=0.1)
    assert learner.model.predict_s(LONG) == pytest.approx(ratio * TRUE.predict_s(LONG), rel=0.25)


def test_prompts_that_never_pause_pause_for_one_step_in_32():
    learner, decodes_alone = taught(400), []
    for number in range(96):
        alone = learner.forecast().wants_decodes_alone
        decodes_alone += [number] * alone
        teach(learner, DECODES if alone else MIXED, prompts=0 if alone else 16)
    assert decodes_alone == [32, 65]


def test_steps_with_prompts_that_surprise_ask_for_one_without_sooner():
    learner = taught(400)
    for _ in range(4):
        assert not learner.forecast().wants_decodes_alone
        teach(learner, MIXED, 3 * TRUE.predict_s(MIXED), 16)
    assert learner.forecast().wants_decodes_alone


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 2048), st.integers(0, 10**6), st.integers(0, 10**8), st.floats(1e-6, 1e4)),
        max_size=60,
    )
)
def test_no_coefficient_is_ever_negative_or_infinite_whatever_is_seen(steps):
    learner = StepLearner()
    for tokens, context, attention, duration_s in steps:
        work = StepWork(tokens, context, float(attention), min(tokens, 256))
        learner.observe(work, duration_s, num_prefill_tokens=attention and tokens)
        model = learner.model
        costs = (model.base_s, model.token_s, model.context_token_s, model.attention_token_s)
        costs += (model.sampled_row_s, model.squared_token_s)
        assert all(0 <= cost < 1e9 for cost in costs), model


@pytest.mark.parametrize("broken_s", [0.0, -1.0, 1e-300, 1e300, float("nan"), float("inf")])
@pytest.mark.parametrize("when", [0, 400])
def test_a_clock_that_stands_still_or_goes_mad_teaches_nothing(broken_s, when):
    learner = taught(when)
    before = learner.model
    for _ in range(50):
        teach(learner, DECODES, broken_s)
    assert learner.model == before


@pytest.mark.parametrize("paused_s", [5.0, 3600.0])
@pytest.mark.parametrize("when", [0, 1, 400])
def test_a_process_that_was_stopped_is_soon_known_as_before(when, paused_s):
    learner = taught(when)
    teach(learner, DECODES, paused_s)
    for _ in range(20):
        teach(learner, DECODES)
    assert learner.model.predict_s(DECODES) == pytest.approx(TRUE.predict_s(DECODES), rel=0.1)
