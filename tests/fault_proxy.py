"""A reverse proxy before a real API server that does to its client what networks and servers do.

It runs in a thread of its own. Faults are put in and taken out while requests and watches are under way; a
watch is passed on line by line, and each line asks what is the matter now.
"""

import asyncio
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from aiohttp import web

PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Call:
    """One request as a fault sees it. `verb` is RBAC's word."""

    verb: str
    path: str
    authorization: str

    @classmethod
    def of(cls, request: web.Request) -> "Call":
        verb = _VERBS[request.method]
        if request.query.get("watch") in ("1", "true"):
            verb = "watch"
        elif verb == "get" and "limit" in request.query:
            verb = "list"
        return cls(verb, request.path, request.headers.get("Authorization", ""))

    @property
    def resource(self) -> str:
        """The resource with its subresource; empty for what is none, such as discovery."""
        parts = self.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        if parts[:1] == ["namespaces"]:
            parts = parts[2:]
        return "/".join([*parts[:1], *parts[2:3]])


Answer = Callable[[Call], Awaitable[web.Response | None]]
"""What is answered in the server's place; None asks the server."""


@dataclass(slots=True)
class Fault:
    """`line` turns a line of a watch into what is sent, and says whether the watch ends there."""

    concerns: Callable[[Call], bool]
    answer: Answer | None = None
    line: Callable[[bytes], tuple[bytes, bool]] | None = None
    hits: int = 0
    is_over: bool = False


def any_call(_call: Call) -> bool:
    return True


def is_watch(call: Call) -> bool:
    return call.verb == "watch"


def answering(
    code: int,
    reason: str,
    *,
    concerns: Callable[[Call], bool] = any_call,
    headers: dict[str, str] | None = None,
) -> Fault:
    """A `Status` of the API server itself."""

    async def answer(call: Call) -> web.Response:
        return web.json_response(_status(code, reason, call), status=code, headers=headers)

    return Fault(concerns, answer)


def hanging(*, concerns: Callable[[Call], bool] = any_call, seconds: float = 60.0) -> Fault:
    """The request is taken, and for so long nothing comes; then the server is asked after all."""
    fault = Fault(concerns)

    async def answer(_call: Call) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not fault.is_over:
            await asyncio.sleep(0.02)

    fault.answer = answer
    return fault


def truncating() -> Fault:
    """A watch ends well in the middle of a line."""
    return Fault(is_watch, line=lambda line: (line[: len(line) // 2], True))


def erring(code: int, reason: str) -> Fault:
    """An ERROR event in the place of a watch's next line, or at once in a new watch."""
    event = _event(code, reason)

    async def answer(_call: Call) -> web.Response:
        return web.Response(body=event, content_type="application/json")

    return Fault(is_watch, answer, lambda _line: (event, True))


def replaying() -> Fault:
    """Each line of a watch comes twice, and the one before it comes again after it."""
    before = b""

    def line(told: bytes) -> tuple[bytes, bool]:
        nonlocal before
        lines, before = told + told + before, told
        return lines, False

    return Fault(is_watch, line=line)


def _status(code: int, reason: str, call: Call | None = None) -> dict[str, Any]:
    message = f"{reason}: {call.verb} {call.path}" if call else reason
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def _event(code: int, reason: str) -> bytes:
    return orjson.dumps({"type": "ERROR", "object": _status(code, reason)}) + b"\n"


@dataclass(slots=True)
class FaultProxy:
    """`upstream` is the API server's URL, `authority` the file of its CA."""

    upstream: str
    authority: Path
    faults: list[Fault] = field(default_factory=list)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each verb was asked for of each resource, such as `deployments` or `pods/status`."""
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None
    _session: aiohttp.ClientSession | None = None
    _runner: web.AppRunner | None = None
    _site: web.TCPSite | None = None
    _open: dict[int, web.Request] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        self._call(self._start())

    def stop(self) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        assert self._thread is not None
        self._thread.join(5)
        self._loop.close()

    @contextmanager
    def running(self) -> Iterator["FaultProxy"]:
        self.start()
        try:
            yield self
        finally:
            self.stop()

    @contextmanager
    def having(self, fault: Fault) -> Iterator[Fault]:
        """The fault is there while the block runs."""
        self.faults = [*self.faults, fault]
        try:
            yield fault
        finally:
            self.faults = [other for other in self.faults if other is not fault]
            fault.is_over = True

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Nobody listens, and what was open is reset."""
        self._call(self._deafen())
        try:
            yield
        finally:
            self._call(self._listen())

    def drop(self) -> None:
        """Reset every connection that has a request under way."""
        self._call(self._drop())

    def _call(self, work: Awaitable[None]) -> None:
        asyncio.run_coroutine_threadsafe(_awaited(work), self._loop).result(30)

    async def _start(self) -> None:
        context = ssl.create_default_context(cafile=str(self.authority))
        connector = aiohttp.TCPConnector(limit=0, ssl=context)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen()

    async def _listen(self) -> None:
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await self._site.start()
        self.port = self._runner.addresses[0][1]

    async def _deafen(self) -> None:
        assert self._site is not None
        await self._site.stop()
        await self._drop()

    async def _drop(self) -> None:
        for request in list(self._open.values()):
            if request.transport is not None:
                request.transport.abort()

    async def _stop(self) -> None:
        assert self._runner is not None
        assert self._session is not None
        await self._drop()
        await self._runner.cleanup()
        await self._session.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self._open[id(request)] = request
        try:
            call = Call.of(request)
            self.calls[call.verb, call.resource] += 1
            for fault in self.faults:
                if fault.answer is not None and fault.concerns(call):
                    fault.hits += 1
                    answer = await fault.answer(call)
                    if answer is not None:
                        return answer
            return await self._ask(request, call)
        finally:
            del self._open[id(request)]

    async def _ask(self, request: web.Request, call: Call) -> web.StreamResponse:
        assert self._session is not None
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url, body = self.upstream + request.raw_path, await request.read()
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            if call.verb == "watch" and answer.status == 200:
                return await self._pass_on(request, call, answer)
            headers = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
            return web.Response(status=answer.status, body=await answer.read(), headers=headers)

    async def _pass_on(
        self, request: web.Request, call: Call, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with suppress(ConnectionError, aiohttp.ClientError):
            async for line in _lines(answer.content):
                sent, ends = line, False
                for fault in self.faults:
                    if fault.line is not None and fault.concerns(call):
                        fault.hits += 1
                        sent, ends = fault.line(sent)
                await response.write(sent)
                if ends:
                    break
            await response.write_eof()
        return response


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    held = b""
    async for chunk in content.iter_any():
        *whole, held = (held + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
