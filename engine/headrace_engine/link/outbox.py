"""What the core has to say, written to the link by a thread of its own: a reader that lags costs no step.

Reports wait here unwritten, in bounded number: past `MOST_EVENTS` the step loop waits for the reader, since
nobody reads what it would generate. A reader that takes nothing for `READER_GONE_S` has failed, and so has
the engine. Once a second a pulse goes between them: the core is alive, and this is how its step does.
"""

import contextlib
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from headrace_engine.core.plan import PromptLogprobs
from headrace_engine.link import reports
from headrace_engine.link.frames import framed
from headrace_engine.link.messages import NOTICE, NOTICES, REPORT, Notice
from headrace_engine.telemetry.report import StepReport

log = logging.getLogger(__name__)

MOST_EVENTS = 65_536
"""About 15 MB, and 2.4 s of 256 streams at 10 ms a step, after what the socket itself holds."""
EVENTS_A_REPORT = 16
"""What a report weighs besides its events."""
READER_GONE_S = 30.0
PULSE_S = 1.0


class ReaderGoneError(RuntimeError):
    """HTTP has read nothing for so long that it never will."""


class Outbox:
    """`put` and `tell` may be called from any thread; `pulse` is called from the writer's."""

    def __init__(self, link: socket.socket, pulse: Callable[[], Notice | None]) -> None:
        self._link = link
        self._pulse = pulse
        self._waiting: deque[StepReport | Notice] = deque()
        self._num_events = 0
        self._taken = 0
        """How often the writer found time for what waits."""
        self._pulse_at_s = 0.0
        self._changed = threading.Condition()
        self._closing = False
        self._broken = False
        self._thread = threading.Thread(target=self._run, name="link-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def tell(self, notice: Notice) -> None:
        with self._changed:
            self._waiting.append(notice)
            self._changed.notify_all()

    def put(self, report: StepReport) -> None:
        """Waits while too much waits already.

        Raises:
            ReaderGoneError: and it will not be read.
        """
        with self._changed:
            if self._num_events > MOST_EVENTS:
                self._wait_for_reader()
            if self._broken:
                return
            self._num_events += _weight(report)
            self._waiting.append(report)
            self._changed.notify_all()

    def close(self, timeout_s: float) -> None:
        """Ends the thread once everything is written, or the time is over."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _wait_for_reader(self) -> None:
        """In short waits: while the whole process is stopped no time passes here."""
        waits, taken = 0, self._taken
        while self._num_events > MOST_EVENTS and not self._broken:
            self._changed.wait(PULSE_S)
            waits, taken = (0, self._taken) if self._taken != taken else (waits + 1, taken)
            if waits * PULSE_S > READER_GONE_S:
                raise ReaderGoneError(f"nothing was read for {READER_GONE_S:.0f} s")

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._link.sendall(b"".join(framed(_encoded(each)) for each in taken))
        except OSError:
            pass
        except Exception:
            log.exception("what a step did cannot be told; the engine ends its requests and restarts")
        else:
            return
        self._break()

    def _break(self) -> None:
        """Both sides learn it from the link itself; nobody waits here any more."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        with self._changed:
            self._broken = True
            self._waiting.clear()
            self._num_events = 0
            self._changed.notify_all()

    def _take(self) -> list[StepReport | Notice] | None:
        """Everything that waits, or a pulse; None when there is nothing more to come."""
        with self._changed:
            if not (self._waiting or self._closing):
                self._changed.wait(PULSE_S)
            taken = list(self._waiting)
            self._waiting.clear()
            self._num_events = 0
            self._taken += 1
            self._changed.notify_all()
            if not taken and self._closing:
                return None
        now_s = time.monotonic()
        if now_s >= self._pulse_at_s and (pulse := self._pulse()) is not None:
            self._pulse_at_s = now_s + PULSE_S
            taken.append(pulse)
        return taken


def _weight(report: StepReport) -> int:
    """In events. What is told of a chunk of a prompt is one, and weighs as one for each of its tokens."""
    of_prompts = sum(len(event.logprobs) for event in report.events if type(event) is PromptLogprobs)
    return EVENTS_A_REPORT + len(report.events) + of_prompts


def _encoded(each: StepReport | Notice) -> bytes:
    """A letter in front says which it is."""
    if isinstance(each, StepReport):
        return REPORT + reports.encode(each)
    return NOTICE + NOTICES.dump_json(each)
