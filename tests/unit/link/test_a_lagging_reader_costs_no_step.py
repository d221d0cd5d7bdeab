"""The core's outbox on a real socket: what happens when HTTP reads late, never, or is gone."""

import socket
import threading
from collections.abc import Iterator
from itertools import count

import pytest

from headrace_engine.core.limits import Limits
from headrace_engine.core.plan import PromptLogprobs, Tokens
from headrace_engine.core.sampling import TokenLogprobs
from headrace_engine.core.snapshot import Snapshot
from headrace_engine.link import messages as say
from headrace_engine.link import outbox, reports
from headrace_engine.link.frames import Frames
from headrace_engine.link.outbox import Outbox, ReaderGoneError
from headrace_engine.telemetry.report import StepReport

SNAPSHOT = Snapshot(1, 2, 3, 4, 0.5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
TOKENS = 256


def report(number: int) -> StepReport:
    events = tuple(Tokens(f"chatcmpl-{n}", [number]) for n in range(TOKENS))
    return StepReport(float(number), (), (), events, None, Limits(4, 16), SNAPSHOT)


class Ends:
    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.outbox = Outbox(self.far, lambda: say.Pulse(None, 60.0))
        self.frames = Frames()
        self.outbox.start()

    def read(self) -> list[bytes]:
        return list(self.frames.feed(self.near.recv(1 << 20)))

    def read_reports(self, count: int) -> list[float]:
        """When each was, in the order that they came in; pulses between them left out."""
        came: list[float] = []
        while len(came) < count:
            came += [reports.decode(each[1:], {}).now_s for each in self.read() if each[:1] == say.REPORT]
        return came


@pytest.fixture
def ends(monkeypatch) -> Iterator[Ends]:
    monkeypatch.setattr(outbox, "PULSE_S", 0.02)
    ends = Ends()
    yield ends
    ends.near.close()
    ends.outbox.close(1.0)
    ends.far.close()


def test_the_loop_goes_on_while_nobody_reads_and_nothing_is_lost(ends) -> None:
    """Two and a half seconds of 256 streams at 10 ms a step."""
    for number in range(250):
        ends.outbox.put(report(number))
    assert ends.read_reports(250) == list(range(250))


def test_at_its_bound_it_waits_for_the_reader(ends, monkeypatch) -> None:
    monkeypatch.setattr(outbox, "MOST_EVENTS", 4 * TOKENS)
    put: list[int] = []

    def run() -> None:
        for number in range(200):
            ends.outbox.put(report(number))
            put.append(number)

    loop = threading.Thread(target=run)
    loop.start()
    loop.join(0.05)
    assert len(put) < 100, "the socket holds about twenty, the outbox four, and four are being written"
    assert ends.read_reports(200) == list(range(200))
    loop.join(60)
    assert len(put) == 200


def test_what_is_told_of_prompts_weighs_as_much_as_it_is(ends, monkeypatch) -> None:
    """One event may tell of thousands of tokens: bounded as one, they would take gigabytes."""
    monkeypatch.setattr(outbox, "MOST_EVENTS", 4 * TOKENS)
    monkeypatch.setattr(outbox, "READER_GONE_S", 0.05)
    told = PromptLogprobs("chatcmpl-0", [TokenLogprobs(-0.5, 1, (1, 2), (-0.5, -1.5))] * 4 * TOKENS)
    heavy = StepReport(0.0, (), (), (told,), None, Limits(4, 16), SNAPSHOT)
    with pytest.raises(ReaderGoneError):
        put_often(ends, heavy, times=40)


def put_often(ends: Ends, report: StepReport, times: int) -> None:
    for _ in range(times):
        ends.outbox.put(report)


def test_a_reader_that_never_reads_ends_the_engine(ends, monkeypatch) -> None:
    monkeypatch.setattr(outbox, "MOST_EVENTS", TOKENS)
    monkeypatch.setattr(outbox, "READER_GONE_S", 0.05)
    with pytest.raises(ReaderGoneError):
        put_for_ever(ends)


def put_for_ever(ends: Ends) -> None:
    for number in count():
        ends.outbox.put(report(number))


def test_nobody_waits_for_a_reader_that_has_gone(ends, monkeypatch) -> None:
    monkeypatch.setattr(outbox, "MOST_EVENTS", TOKENS)
    ends.near.close()
    for number in range(100):
        ends.outbox.put(report(number))


def test_what_cannot_be_told_breaks_the_link(ends, caplog) -> None:
    """Both sides notice, and neither waits for the other."""
    ends.outbox.tell(object())
    while ends.near.recv(1 << 20):
        pass
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_pulse_goes_out_with_nothing_to_tell_and_with_much(ends) -> None:
    kinds = [each[:1] for _ in range(3) for each in ends.read()]
    assert kinds.count(say.NOTICE) >= 3
    busy = threading.Event()

    def run() -> None:
        number = 0
        while not busy.wait(0.001):
            ends.outbox.put(report(number))
            number += 1

    loop = threading.Thread(target=run)
    loop.start()
    pulses = 0
    while pulses < 3:
        pulses += [each[:1] for each in ends.read()].count(say.NOTICE)
    busy.set()
    loop.join(60)


def test_its_last_words_are_written_before_it_ends(ends) -> None:
    ends.outbox.put(report(1))
    ends.outbox.tell(say.Failed())
    ends.outbox.close(1.0)
    ends.far.shutdown(socket.SHUT_WR)
    came = b""
    while piece := ends.near.recv(1 << 20):
        came += piece
    payloads = [each for each in Frames().feed(came) if b"pulse" not in each]
    assert [each[:1] for each in payloads] == [say.REPORT, say.NOTICE]
    assert say.NOTICES.validate_json(payloads[1][1:]) == say.Failed()
