"""A reader that comes back gets each record once, and is told of those it came too late for."""

from itertools import count

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Outcome
from headrace_engine.core.request import Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.telemetry.metrics import SLO, Metrics
from headrace_engine.telemetry.recorder import Recorder
from headrace_engine.telemetry.records import CursorError, Records
from headrace_engine.telemetry.report import Step, StepReport
from headrace_engine.telemetry.ring import Ring

CAPACITY = Capacity(max_num_seqs=2, max_num_batched_tokens=8, max_model_len=64, num_blocks=32, block_size=4)
SECRET = 4242


class Story:
    """A scheduler whose every turn is recorded; each step takes 10 ms."""

    def __init__(self, **sizes: int) -> None:
        self.now_s = 100.0
        self.scheduler = Scheduler(capacity=CAPACITY, limits=Limits(2, 8, max_num_queued_reqs=2))
        self.records = Records(
            clock=lambda: self.now_s, unix_clock=lambda: 1000 + self.now_s, instance="0000000a", **sizes
        )
        metrics = Metrics(model_name="m", max_model_len=64, slo=SLO())
        self._recorder = Recorder(metrics, SLO(), on_end=[self.records.ended])
        self._names = (f"r{number}" for number in count())

    def tell(self, *, accepted=(), rejected=(), events=(), step=None) -> None:
        snapshot = self.scheduler.snapshot(self.now_s)
        limits = self.scheduler.limits
        report = StepReport(
            self.now_s, tuple(accepted), tuple(rejected), tuple(events), step, limits, snapshot
        )
        self._recorder.record(report)
        self.records.record(report)

    def arrive(self, prompt_tokens: int = 3, max_tokens: int = 2) -> None:
        request = Request(next(self._names), (SECRET,) * prompt_tokens, max_tokens, arrival_s=self.now_s - 1)
        rejection = self.scheduler.submit(request, self.now_s)
        if rejection is None:
            self.tell(accepted=[request])
        else:
            self.tell(rejected=[(request, rejection)])

    def step(self) -> None:
        plan = self.scheduler.schedule(self.now_s)
        self.now_s += 0.01
        sampled = {row.request_id: [SECRET] for row in plan.rows if row.sampled_rows}
        events = self.scheduler.commit(plan, Outcome(sampled, 0.01), self.now_s)
        self.tell(events=events, step=Step.of(plan, 0.01))


def test_a_step_says_what_its_time_depends_on() -> None:
    story = Story()
    story.arrive(prompt_tokens=5)
    story.step()
    story.step()
    prefill, decode = story.records.document(None, 10)["steps"]
    assert prefill == {
        "ended_s": pytest.approx(100.01),
        "duration_s": 0.01,
        "num_seqs": 1,
        "prefill_tokens": 5,
        "decode_tokens": 0,
        "context_tokens": 5,
        "decode_context_tokens": 0,
        "prefill_attention_tokens": 12.5,
        "num_running": 1,
        "num_waiting": 0,
    }
    assert (decode["prefill_tokens"], decode["decode_tokens"], decode["context_tokens"]) == (0, 1, 6)


def test_a_request_says_when_and_how_long_and_how_it_ended() -> None:
    story = Story()
    story.arrive(prompt_tokens=5)
    story.step()
    story.step()
    document = story.records.document(None, 10)
    assert document["requests"] == [
        {
            "arrival_s": 99.0,
            "first_scheduled_s": 100.0,
            "first_token_s": pytest.approx(100.01),
            "ended_s": pytest.approx(100.02),
            "prompt_tokens": 5,
            "output_tokens": 2,
            "cached_tokens": 0,
            "max_tokens": 2,
            "preemptions": 0,
            "priority": 0,
            "tenant": "",
            "outcome": "length",
        }
    ]
    assert document["now_unix_s"] - document["now_s"] == pytest.approx(1000)


def test_a_request_that_was_refused_is_an_arrival_too() -> None:
    story = Story()
    for _ in range(5):
        story.arrive()
    refused = story.records.document(None, 10)["requests"]
    assert {record["outcome"] for record in refused} == {"queue_full_requests"}
    assert all(record["first_scheduled_s"] is None and record["output_tokens"] == 0 for record in refused)


def test_there_is_no_token_id_in_it() -> None:
    story = Story()
    story.arrive()
    story.step()
    story.step()
    text = orjson.dumps(story.records.document(None, 10)).decode()
    assert str(SECRET) not in text
    assert "r0" not in text


def test_a_reader_that_comes_back_gets_what_is_new() -> None:
    story = Story()
    story.arrive()
    story.step()
    first = story.records.document(None, 10)
    story.step()
    second = story.records.document(first["cursor"], 10)
    assert [len(document["steps"]) for document in (first, second)] == [1, 1]
    assert second["lost"] == {"steps": 0, "requests": 0}
    third = story.records.document(second["cursor"], 10)
    assert (third["steps"], third["requests"], third["cursor"]) == ([], [], second["cursor"])


def test_a_reader_that_comes_late_is_told_how_many_are_gone() -> None:
    story = Story(kept_steps=3)
    cursor = story.records.document(None, 10)["cursor"]
    story.arrive(max_tokens=9)
    for _ in range(8):
        story.step()
    document = story.records.document(cursor, 10)
    assert (len(document["steps"]), document["lost"]["steps"]) == (3, 5)


def test_the_records_of_an_engine_that_was_started_again_are_lost_uncounted() -> None:
    story = Story()
    story.arrive()
    story.step()
    document = story.records.document("deadbeef.900.12", 10)
    assert (document["lost"], len(document["steps"])) == (None, 1)


@pytest.mark.parametrize("cursor", ["", "7", "0000000a.1.2.3", "0000000a.-1.0", "0000000a.99.0", "x" * 5000])
def test_a_cursor_that_nobody_gave_is_refused(cursor) -> None:
    with pytest.raises(CursorError):
        Story().records.document(cursor, 10)


@given(
    size=st.integers(1, 8),
    turns=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)), max_size=30),
)
def test_every_record_is_read_once_or_counted_as_lost(size, turns) -> None:
    ring: Ring[int] = Ring(size)
    numbers, position, seen = count(), 0, []
    for appended, limit in turns:
        for _ in range(appended):
            ring.append(next(numbers))
        page = ring.since(position, limit)
        assert len(page.records) <= limit
        seen += [None] * page.lost + page.records
        position = page.end
    page = ring.since(position, size)
    seen += [None] * page.lost + page.records
    assert len(seen) == ring.end
    assert all(record in (None, index) for index, record in enumerate(seen))
