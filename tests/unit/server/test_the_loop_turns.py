"""The step loop by hand crank, on a fake clock: what one turn does, and what is told of it."""

from collections.abc import Callable

import pytest

from headrace_engine.core.limits import Capacity, Limits, LimitsError
from headrace_engine.core.plan import Finished, Outcome, Plan, Scheduled, Tokens
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.server.loop import StepLoop
from headrace_engine.telemetry.report import StepReport

CAPACITY = Capacity(max_num_seqs=4, max_num_batched_tokens=16, max_model_len=64, num_blocks=32, block_size=4)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class CountingRunner:
    """Answers every sampling row with its position; a step takes a second of the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.plans: list[Plan] = []
        self.fails = False

    def run(self, plan: Plan) -> Outcome:
        self.plans.append(plan)
        if self.fails:
            raise RuntimeError("the device is gone")
        self._clock.now_s += 1.0
        ends = {row.request_id: row.start + len(row.token_ids) for row in plan.rows if row.sampled_rows}
        return Outcome({request_id: [end] for request_id, end in ends.items()}, 1.0)


class Bench:
    """A loop that is never started, and all it told."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.runner = CountingRunner(self.clock)
        self.scheduler = Scheduler(capacity=CAPACITY)
        self.reports: list[StepReport] = []
        self.failures = 0
        self.loop = StepLoop(
            self.scheduler,
            self.runner,
            deliver=self.reports.append,
            on_failure=self._failed,
            clock=self.clock,
        )

    def _failed(self) -> None:
        self.failures += 1

    def request(self, name: str, **given: object) -> Request:
        options = {"prompt_token_ids": (1, 2, 3), "max_tokens": 2, "arrival_s": self.clock.now_s} | given
        return Request(request_id=name, **options)

    def events(self) -> list[object]:
        return [event for report in self.reports for event in report.events]

    def finished(self) -> dict[str, FinishReason]:
        return {event.request_id: event.reason for event in self.events() if isinstance(event, Finished)}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def crank(bench: Bench, most: int = 20) -> None:
    for _ in range(most):
        bench.loop.turn()


def test_a_turn_without_work_tells_nothing(bench) -> None:
    assert bench.loop.turn() is False
    assert bench.reports == []
    assert bench.runner.plans == []


def test_a_request_is_accepted_and_stepped_in_one_turn(bench) -> None:
    bench.loop.submit([bench.request("a")])
    assert bench.loop.turn() is True
    report = bench.reports[0]
    assert [request.request_id for request in report.accepted] == ["a"]
    assert [type(event) for event in report.events] == [Scheduled, Tokens]
    assert (report.step.num_prefill_tokens, report.step.num_decode_tokens, report.step.duration_s) == (
        3,
        0,
        1.0,
    )
    assert report.now_s == 101.0
    assert report.snapshot.num_running == 1


def test_one_report_a_step(bench) -> None:
    bench.loop.submit([bench.request(name) for name in "abcd"])
    crank(bench)
    assert len(bench.reports) == len(bench.runner.plans) == 2
    assert bench.finished() == dict.fromkeys("abcd", FinishReason.LENGTH)


def test_a_rejection_is_told_with_its_request(bench) -> None:
    bench.loop.submit([bench.request("a", prompt_token_ids=tuple(range(64)))])
    bench.loop.turn()
    request, rejection = bench.reports[0].rejected[0]
    assert (request.request_id, rejection.reason) == ("a", "never_fits")


def test_an_abort_frees_the_blocks_before_the_next_step(bench) -> None:
    bench.loop.submit([bench.request("a", max_tokens=50)])
    bench.loop.turn()
    bench.loop.abort(["a", "unknown"])
    bench.loop.turn()
    assert bench.finished() == {"a": FinishReason.ABORT}
    assert bench.reports[-1].snapshot.referenced_blocks == 0
    assert len(bench.runner.plans) == 1


def test_a_request_that_is_aborted_in_the_turn_it_came_is_never_run(bench) -> None:
    bench.loop.submit([bench.request("a")])
    bench.loop.abort(["a"])
    bench.loop.turn()
    assert bench.finished() == {"a": FinishReason.ABORT}
    assert bench.runner.plans == []


def test_a_missed_queue_deadline_is_told(bench) -> None:
    bench.loop.submit([bench.request("a", queue_deadline_s=99.0)])
    bench.loop.turn()
    assert bench.finished() == {"a": FinishReason.EXPIRED}


def test_limits_change_between_two_steps(bench) -> None:
    bench.loop.submit([bench.request(name, max_tokens=30) for name in "abcd"])
    bench.loop.turn()
    changed = bench.loop.call(lambda scheduler: scheduler.set_limits(Limits(2, 3)))
    assert not changed.done()
    bench.loop.turn()
    assert changed.result(timeout=0) is None
    assert bench.runner.plans[-1].num_tokens <= 3
    assert bench.reports[-1].limits.max_num_seqs == 2
    assert bench.finished() == {}


def test_a_change_of_an_idle_engine_is_told_too(bench) -> None:
    bench.loop.call(lambda scheduler: scheduler.set_limits(Limits(2, 3)))
    bench.loop.turn()
    assert bench.reports[-1].limits == Limits(2, 3)


def test_what_a_change_raises_goes_to_its_caller(bench) -> None:
    changed = bench.loop.call(lambda scheduler: scheduler.set_limits(Limits(99, 3)))
    bench.loop.turn()
    with pytest.raises(LimitsError):
        changed.result(timeout=0)
    assert bench.failures == 0


def broken_runner(bench: Bench) -> None:
    bench.runner.fails = True


def broken_schedule(bench: Bench) -> None:
    bench.scheduler.schedule = lambda _now_s: 1 / 0


def broken_commit(bench: Bench) -> None:
    bench.scheduler.commit = lambda _plan, _outcome, _now_s: 1 / 0


def test_a_report_that_cannot_be_made_ends_the_engine_too(bench) -> None:
    bench.scheduler.snapshot = lambda _now_s: 1 / 0
    bench.loop.submit([bench.request("a")])
    bench.loop.start()
    bench.loop.stop()
    assert bench.failures == 1


@pytest.mark.parametrize("broken", [broken_runner, broken_schedule, broken_commit])
def test_a_failure_ends_every_request_once_and_the_loop(bench, broken: Callable[[Bench], None]) -> None:
    bench.loop.submit([bench.request(name, max_tokens=9) for name in "abcd"])
    bench.loop.turn()
    broken(bench)
    bench.loop.submit([bench.request("waiting")])
    bench.loop.turn()
    assert bench.failures == 1
    assert bench.finished() == dict.fromkeys((*"abcd", "waiting"), FinishReason.ERROR)
    assert len([event for event in bench.events() if isinstance(event, Finished)]) == 5


def test_a_failed_loop_refuses_what_comes_after(bench) -> None:
    bench.runner.fails = True
    bench.loop.submit([bench.request("a")])
    bench.loop.start()
    bench.loop.stop()
    bench.loop.submit([bench.request("late")])
    request, rejection = bench.reports[-1].rejected[0]
    assert (request.request_id, rejection.reason) == ("late", "draining")
    assert bench.failures == 1


def test_a_loop_that_is_stopped_leaves_nobody_unanswered(bench) -> None:
    bench.loop.submit([bench.request(name, max_tokens=50) for name in "abcdef"])
    bench.loop.turn()
    bench.loop.start()
    bench.loop.stop()
    assert set(bench.finished()) == set("abcdef")
