"""The wire: uvicorn's h11 protocol with the deadlines and counts that it lacks.

A connection must send its headers in time, may not deliver a body in crumbs, and must read what it asked
for; the number of connections is bounded, in all and an address. What breaks a rule is closed, with an
answer where HTTP allows one.
"""

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace_engine.server.errors import invalid, unavailable
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.peer import peer_of
from headrace_engine.server.responses import error_bytes


class Connections:
    """Counts the open connections of one server."""

    def __init__(self) -> None:
        self._by_address: Counter[str] = Counter()
        self.num_open = 0

    def enter(self, address: str, limits: HttpLimits) -> bool:
        """False where there is no room."""
        if self.num_open >= limits.max_connections:
            return False
        if self._by_address[address] >= limits.max_connections_per_address:
            return False
        self.num_open += 1
        self._by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        self.num_open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class _Connection(h11.Connection):
    """Counts the pieces of a body that comes, and frames the pieces of a stream that goes by hand."""

    def __init__(self, limits: HttpLimits) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=limits.max_header_bytes + limits.max_url_bytes)
        self._most = limits.max_body_reads
        self._pieces = 0
        self._sends_chunks = False

    def send(self, event: Any) -> Any:
        """A piece in the middle of a chunked body changes no state: it costs its framing alone."""
        if isinstance(event, h11.Data) and self._sends_chunks and self.our_state is h11.SEND_BODY:
            return b"%x\r\n%b\r\n" % (len(event.data), event.data) if event.data else b""
        sent = super().send(event)
        if isinstance(event, h11.Response):
            self._sends_chunks = sent is not None and b"transfer-encoding: chunked\r\n" in sent.lower()
        return sent

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = 0
        elif isinstance(event, h11.Data):
            self._pieces += 1
            if self._pieces > self._most:
                raise h11.RemoteProtocolError("too many chunks", error_status_hint=400)
        return event


class BoundedProtocol(H11Protocol):
    """One connection. Made by uvicorn, with `limits` and `open_connections` bound beforehand."""

    def __init__(self, *, limits: HttpLimits, open_connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._open = open_connections
        self._address: str | None = None
        self._early = b""
        """Pipelined behind the request that is being answered."""
        self._header_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self.conn = _Connection(limits)
        self.timeout_keep_alive = limits.keep_alive_s  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = peer_of(self.client[0]) if self.client else ""
        if not self._open.enter(address, self._limits):
            busy = unavailable("too_many_connections", "Too many connections are open. Try again.")
            transport.write(_raw_answer(503, error_bytes(busy.body)))
            transport.close()
            return
        self._address = address
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._address is not None:
            self._open.leave(self._address)
            self._address = None
        self._unset_header_timer()
        self._unset_stall_timer()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._is_answering():
            self._keep_for_later(data)
            return
        super().data_received(data)
        if self._is_answering():
            # What was pipelined behind the request made h11 pause; an unread socket hides a disconnect.
            self.flow.resume_reading()
        if self.conn.their_state is not h11.IDLE:
            self._unset_header_timer()
        elif self._header_timer is None:
            self._await_headers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._early and not self.transport.is_closing():
            early, self._early = self._early, b""
            self.data_received(early)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer = self.loop.call_later(self._limits.write_stall_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unset_stall_timer()

    def send_400_response(self, msg: str) -> None:
        """Broken HTTP. An answer is possible only where none was begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_raw_answer(400, error_bytes(invalid(None, msg).body)))
        self.transport.close()

    def _should_upgrade(self) -> bool:
        """Never, and nothing is missing: uvicorn would advise in the log, at each request, to install what it
        takes.
        """
        return False

    def _is_answering(self) -> bool:
        """The request is complete and its response is not: more bytes belong to a later request."""
        return self.conn.their_state is h11.DONE and not self.cycle.response_complete

    def _keep_for_later(self, data: bytes) -> None:
        self._early += data
        if len(self._early) > self._limits.max_pipelined_bytes:
            self.transport.abort()

    def _await_headers(self) -> None:
        self._header_timer = self.loop.call_later(self._limits.header_timeout_s, self._no_headers_came)

    def _unset_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _unset_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _no_headers_came(self) -> None:
        self._header_timer = None
        if not self.transport.is_closing():
            late = invalid(None, "The headers did not arrive in time.", status=408)
            self.transport.write(_raw_answer(408, error_bytes(late.body)))
            self.transport.close()


def _raw_answer(status: int, body: bytes) -> bytes:
    phrases = {400: b"Bad Request", 408: b"Request Timeout", 503: b"Service Unavailable"}
    head = (
        b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"x-content-type-options: nosniff\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
    )
    return head % (status, phrases[status], len(body)) + body
