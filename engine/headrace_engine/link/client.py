"""HTTP's end of the link: commands out, notices in. Lives on the event loop.

Reports are handed over undecoded, because only their receiver still has the requests that they speak of.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from headrace_engine.core.request import FinishReason, Request
from headrace_engine.link import messages as say
from headrace_engine.link.frames import FrameError, Frames, framed
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.server.heartbeat import Pulses
from headrace_engine.server.model import ModelFacts
from headrace_engine.server.rules import Rules

log = logging.getLogger(__name__)
T = TypeVar("T")

GONE = "the engine core is gone"


class CoreLostError(RuntimeError):
    """The engine core is gone."""


class CoreLink(asyncio.Protocol):
    """Connected by `connect`; whoever has it says `stop` in the end."""

    def __init__(self, pulses: Pulses) -> None:
        loop = asyncio.get_running_loop()
        self.found: asyncio.Future[Path] = loop.create_future()
        self.loaded: asyncio.Future[ModelFacts] = loop.create_future()
        """Both raise `ModelLoadError` for a model that cannot be loaded, and `CoreLostError`."""
        self.pulses = pulses
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._on_report: Callable[[bytes], None] = lambda _report: None
        self._on_end: Callable[[], None] = lambda: None
        self._numbers = count()
        self._changes: dict[int, asyncio.Future[None]] = {}
        self._stopping = False
        self.lost = loop.create_future()
        """Done when nothing more will come."""

    @classmethod
    async def connect(cls, end: socket.socket, pulses: Pulses) -> "CoreLink":
        link = cls(pulses)
        await asyncio.get_running_loop().create_connection(lambda: link, sock=end)
        return link

    def listen(self, on_report: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        """Who takes the reports from now on, and is told when the core has failed or is gone."""
        self._on_report, self._on_end = on_report, on_end
        if self.lost.done():
            asyncio.get_running_loop().call_soon(on_end)

    def open(self, rules: Rules, *, enable_prefix_caching: bool) -> None:
        self._say(say.Open(rules, enable_prefix_caching))

    def submit(self, requests: Sequence[Request]) -> None:
        """Raises `PydanticSerializationError` for a value that is not of its type; then none is sent."""
        self._say(say.Submit(tuple(requests)))

    def abort(self, request_ids: Iterable[str], reason: FinishReason) -> None:
        self._say(say.Abort(tuple(request_ids), reason))

    async def set_rules(self, rules: Rules, *, new_policy: bool) -> None:
        """Active from the step after this returns, all of them or none.

        Raises:
            CoreLostError: nobody knows whether they are.
        """
        if self.lost.done():
            raise CoreLostError(GONE)
        number = next(self._numbers)
        self._changes[number] = change = asyncio.get_running_loop().create_future()
        self._say(say.SetRules(number, rules, new_policy))
        await change

    def close_admission(self) -> None:
        self._say(say.CloseAdmission())

    def stop(self) -> None:
        """The core ends after its step under way; what it tells until then still comes."""
        self._stopping = True
        self._say(say.Stop())

    def close(self) -> None:
        self._stopping = True
        self._lose()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.pulses.heard()
        try:
            for payload in self._frames.feed(data):
                if payload[:1] == say.REPORT:
                    self._on_report(payload[1:])
                else:
                    self._heed(say.NOTICES.validate_json(payload[1:]))
        except (FrameError, ValueError):
            log.exception("the engine core says what nobody understands")
            self._lose()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self._lose()

    def _say(self, command: say.Command) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(framed(say.COMMANDS.dump_json(command, warnings="error")))

    def _heed(self, notice: say.Notice) -> None:
        match notice:
            case say.Pulse():
                self.pulses.pulse(notice.waiting_since_s, notice.stalled_after_s)
            case say.Found(directory=directory):
                _settle(self.found, directory)
            case say.Loaded(facts=facts):
                _settle(self.loaded, facts)
            case say.NotLoaded(reason=reason):
                self._not_loaded(reason)
            case say.RulesSet(number=number, error=error):
                self._answered(self._changes.pop(number), error)
            case say.Failed():
                self._on_end()

    def _not_loaded(self, reason: str | None) -> None:
        told = "loading failed; the engine core's own log line says why"
        self._give_up(ModelLoadError(told if reason is None else reason))

    def _answered(self, change: "asyncio.Future[None]", error: str | None) -> None:
        if change.cancelled():
            return
        if error is None:
            change.set_result(None)
        else:
            change.set_exception(RuntimeError(error))

    def _lose(self) -> None:
        if self.lost.done():
            return
        self.lost.set_result(None)
        if self._transport is not None:
            self._transport.close()
        self._give_up(CoreLostError(GONE))
        if not self._stopping:
            self._on_end()

    def _give_up(self, error: Exception) -> None:
        """Whoever waits for an answer hears that none will come."""
        waiting: list[asyncio.Future[Any]] = [self.found, self.loaded, *self._changes.values()]
        self._changes.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # a reader may have gone, and that is no fault


def _settle(future: "asyncio.Future[T]", value: T) -> None:
    if not future.done():
        future.set_result(value)
