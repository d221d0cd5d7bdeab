"""`max_step_ms` by what an engine learns from its own steps, on machines of known cost and a fake clock.

Streams come and go, prompts come in bursts or never stop; steps are noisy, and some have a pause in them.
"""

import pytest
from scheduler_drive import quantile
from scheduler_machine import MACHINES, Judged, Machine, Traffic

MAX_STEP_MS = {
    "a CPU": 28,
    "a CPU with attention": 30,
    "a GPU": 26,
    "a GPU that reads its weights first": 12,
    "where context costs most": 40,
}
PROMPTS = {"bursts": Traffic(1), "without end": Traffic(2, prompt_gap_steps=4.0, never_stops=True)}
NUM_STEPS, LEARNING_STEPS = 800, 32
STRAIGHT = [name for name in MACHINES if name != "a GPU that reads its weights first"]
"""Where each token costs the same: what the model learns can then be the truth."""


def p95_over(steps: list[Judged]) -> float:
    """How far steps with prompts go beyond what they may take."""
    return quantile([step.true_s / step.allowed_s for step in steps if step.num_prefill_tokens], 0.95)


def p95_error(steps: list[Judged]) -> float:
    return quantile([abs(step.predicted_s / step.true_s - 1) for step in steps], 0.95)


@pytest.mark.parametrize("prompts", PROMPTS)
@pytest.mark.parametrize("machine", MACHINES)
def test_steps_keep_within_a_tenth_more_from_the_first_prompt_on(machine: str, prompts: str) -> None:
    steps = Machine(MACHINES[machine]).run(PROMPTS[prompts], MAX_STEP_MS[machine], NUM_STEPS)
    assert p95_over(steps) <= 1.1
    assert p95_error(steps[LEARNING_STEPS:]) <= (0.1 if machine in STRAIGHT else 0.2)


@pytest.mark.parametrize("machine", MACHINES)
def test_prompts_are_computed_about_as_fast_as_by_the_true_model(machine: str) -> None:
    traffic, model, ms = PROMPTS["without end"], MACHINES[machine], MAX_STEP_MS[machine]
    learned, given = (
        sum(step.num_prefill_tokens for step in steps) / sum(step.true_s for step in steps)
        for steps in (
            Machine(model).run(traffic, ms, NUM_STEPS),
            Machine(model).run(traffic, ms, NUM_STEPS, given=model),
        )
    )
    assert learned >= 0.85 * given


@pytest.mark.parametrize("machine", ["a CPU", "a GPU", "where context costs most"])
def test_a_machine_that_became_half_as_fast_is_learned_again(machine: str) -> None:
    half = NUM_STEPS // 2
    twice_ms = 2 * MAX_STEP_MS[machine]
    steps = Machine(MACHINES[machine], slower_from_step=half).run(PROMPTS["bursts"], twice_ms, NUM_STEPS)
    learned_again = steps[half + LEARNING_STEPS :]
    assert p95_over(learned_again) <= 1.1
    assert p95_error(learned_again) <= 0.1


@pytest.mark.parametrize("machine", ["a CPU", "a GPU", "where context costs most"])
def test_a_noisy_machine_keeps_within_it_too(machine: str) -> None:
    noisy = Machine(MACHINES[machine], noise_ratio=0.12, pauses_ratio=0.03)
    assert p95_over(noisy.run(PROMPTS["bursts"], MAX_STEP_MS[machine], NUM_STEPS)) <= 1.15


def test_decodes_that_take_longer_than_the_budget_starve_no_prompt() -> None:
    steps = Machine(MACHINES["a GPU"]).run(PROMPTS["bursts"], 5, NUM_STEPS)
    prompts = [step for step in steps if step.num_prefill_tokens]
    assert p95_over(prompts) <= 1.1
    assert sum(step.num_prefill_tokens for step in prompts) >= 16 * len(prompts)
