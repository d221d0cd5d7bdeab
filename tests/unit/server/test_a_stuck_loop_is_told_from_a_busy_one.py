"""What `livez` goes by: a heartbeat where the loop is, its pulses where HTTP is, and one clock."""

import pytest

from headrace_engine.server.heartbeat import LEAST_STALL_S, Heartbeat, Pulses


class Seen:
    """A loop and HTTP, which hears of it once a second while it can be heard."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.heartbeat = Heartbeat(lambda: self.now_s)
        self.pulses = Pulses(lambda: self.now_s)
        self.is_heard = True

    def after(self, seconds: float) -> bool:
        """Whether it counts as stalled, that much later."""
        self.now_s += seconds
        if self.is_heard:
            self.pulses.heard()
            self.pulses.pulse(self.heartbeat.waiting_since_s, self.heartbeat.stalled_after_s)
        return self.pulses.stalled()


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_without_work_it_never_stalls(seen) -> None:
    seen.heartbeat.beat(has_work=False)
    assert not seen.after(1e6)


def test_with_work_a_step_must_end(seen) -> None:
    seen.heartbeat.beat(has_work=True)
    assert not seen.after(59)
    assert seen.after(2)
    seen.heartbeat.stepped(61.0)
    assert not seen.after(1)


def test_a_slow_model_gets_the_time_that_its_steps_take(seen) -> None:
    seen.heartbeat.beat(has_work=True)
    seen.heartbeat.stepped(30.0)
    assert not seen.after(500)
    assert seen.after(101)


def test_a_first_large_step_is_not_taken_for_a_stuck_one(seen) -> None:
    """Minutes, on a few processors; a restart would only begin it again."""
    seen.heartbeat.beat(has_work=True)
    seen.heartbeat.planned(2048)
    assert not seen.after(500)
    assert seen.after(13)


def test_turning_without_a_step_is_no_progress(seen) -> None:
    for _ in range(10):
        seen.heartbeat.beat(has_work=True)
        seen.now_s += 10
    assert seen.after(0)


def test_a_core_that_says_nothing_any_more_is_stuck_with_work_or_without(seen) -> None:
    """Its process may be stopped, or hang where it holds the interpreter's lock."""
    seen.heartbeat.beat(has_work=False)
    assert not seen.after(1)
    seen.is_heard = False
    assert not seen.after(LEAST_STALL_S)
    assert seen.after(1)
    seen.is_heard = True
    assert not seen.after(0)
