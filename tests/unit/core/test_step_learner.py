"""A step model learned from steps: soon, through noise and pauses, and without forgetting what it needs."""

import random

import pytest

from headrace_engine.core.step_learner import StepLearner
from headrace_engine.core.step_model import StepModel, StepWork

TRUE = StepModel(base_s=0.002, weights_s=0.020, token_s=0.0008)
LONG, SHORT = StepWork(264), StepWork(8)


def taught(num_steps: int, *, pauses: bool = False) -> StepLearner:
    """Decodes, and a long prompt every twenty steps; each step within some 5 %, and now and then a pause."""
    chance, learner = random.Random(1), StepLearner()
    for number in range(num_steps):
        work = SHORT if number % 20 else LONG
        pause = 10 if pauses and number % 97 == 50 else 1
        learner.observe(work, TRUE.predict_s(work) * (1 + chance.gauss(0, 0.05)) * pause)
    return learner


def test_too_few_steps_teach_nothing():
    assert taught(15).model is None


@pytest.mark.parametrize("pauses", [False, True])
def test_short_and_long_steps_are_predicted_through_noise_and_pauses(pauses):
    model = taught(400, pauses=pauses).model
    assert model.predict_s(SHORT) == pytest.approx(TRUE.predict_s(SHORT), rel=0.15)
    assert model.predict_s(LONG) == pytest.approx(TRUE.predict_s(LONG), rel=0.15)


def test_steps_that_are_all_alike_do_not_make_a_token_free():
    learner = taught(400)
    for _ in range(2000):
        learner.observe(SHORT, TRUE.predict_s(SHORT))
    assert learner.model.predict_s(LONG) > 0.5 * TRUE.predict_s(LONG)


def test_an_engine_that_became_slower_is_seen_within_a_few_steps():
    learner = taught(400)
    for _ in range(20):
        learner.observe(SHORT, 2 * TRUE.predict_s(SHORT))
    assert learner.model.predict_s(SHORT) == pytest.approx(2 * TRUE.predict_s(SHORT), rel=0.1)


def test_no_coefficient_is_ever_negative():
    learner = StepLearner()
    for _ in range(50):
        learner.observe(LONG, 0.001)
        learner.observe(SHORT, 0.05)
    model = learner.model
    assert min(model.base_s, model.token_s) >= 0


@pytest.mark.parametrize("broken_s", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("when", [0, 400])
def test_a_clock_that_stands_still_or_goes_mad_teaches_nothing(broken_s, when):
    learner = taught(when)
    for _ in range(50):
        learner.observe(SHORT, broken_s)
    for number in range(100):
        work = SHORT if number % 20 else LONG
        learner.observe(work, TRUE.predict_s(work))
    assert learner.model.predict_s(SHORT) == pytest.approx(TRUE.predict_s(SHORT), rel=0.15)
