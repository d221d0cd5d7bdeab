"""A process that stood still (stopped, swapped out, its machine suspended) comes back with one step that took
minutes. No measured rate believes it: policies that go by one would give up on everybody for a minute.
"""

import pytest

from headrace_engine.core.drain_rate import DrainRate
from headrace_engine.core.prefill_rate import PrefillRate


@pytest.mark.parametrize("stopped_s", [5.0, 60.0, 3600.0, 1e9])
@pytest.mark.parametrize("steps_before", [0, 1, 200])
def test_a_rate_of_prompts_is_soon_what_it_was(steps_before, stopped_s):
    rate = PrefillRate()
    for _ in range(steps_before):
        rate.observe(500, 0.25)
    rate.observe(500, stopped_s)
    for _ in range(40):
        rate.observe(500, 0.25)
    assert rate.tokens_per_s == pytest.approx(2000.0, rel=0.15)
    if steps_before == 200:
        rate.observe(500, stopped_s)
        assert rate.tokens_per_s == pytest.approx(2000.0, rel=0.25)


@pytest.mark.parametrize("step_s", [0.001, 0.25, 1.0, 30.0])
def test_steps_that_are_all_slow_are_believed(step_s):
    rate = PrefillRate()
    for _ in range(3):
        rate.observe(500, step_s)
    assert rate.tokens_per_s == pytest.approx(500 / step_s)


def test_a_machine_that_became_slower_is_believed_soon():
    rate = PrefillRate()
    for _ in range(200):
        rate.observe(500, 0.1)
    for _ in range(50):
        rate.observe(500, 3.0)
    assert rate.tokens_per_s == pytest.approx(500 / 3.0, rel=1.0)


@pytest.mark.parametrize("stopped_s", [5.0, 60.0, 3600.0])
def test_a_queue_drains_as_it_did_before(stopped_s):
    rate = DrainRate()
    for _ in range(200):
        rate.observe(0.5, 1, 100)
    rate.observe(stopped_s, 1, 100)
    assert rate.drain_time_s(10, 1000) == pytest.approx(5.0, rel=0.15)
