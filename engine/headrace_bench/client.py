"""One streamed request over OpenAI's HTTP, and the record of it; errors of the network end here.

Every request opens a connection of its own unless the caller's `httpx.AsyncClient` keeps them: each stands
for another user, and a Kubernetes Service balances connections, not requests.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import orjson

from headrace_bench.record import Outcome, Record
from headrace_bench.stream import EventReader, Transcript, error_message
from headrace_bench.workload import Ask

REFUSALS = frozenset({429, 503})


def http_client(base_url: str, *, api_key: str | None = None, timeout_s: float = 120.0) -> httpx.AsyncClient:
    """A client without keep-alive and without a bound on connections: the load is the bound."""
    return httpx.AsyncClient(
        base_url=base_url.rstrip("/") + "/",
        headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        timeout=httpx.Timeout(timeout_s),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        trust_env=False,
    )


class Client:
    """Sends asks to one model of one endpoint.

    `max_retries` is how often a refusal with `Retry-After` is obeyed; 0 records the refusal.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        model: str,
        *,
        max_retries: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._http = http
        self._model = model
        self._max_retries = max_retries
        self.clock = clock

    async def send(self, ask: Ask, due_s: float | None = None) -> Record:
        """Sends `ask` as a chat and reads its stream to the end. No fault of server or network raises."""
        sent_s = self.clock()
        due_s = sent_s if due_s is None else due_s
        attempts = 1
        while True:
            record, retry_after_s = await self._attempt(ask, due_s, sent_s)
            if retry_after_s is None or attempts > self._max_retries:
                return replace(record, attempts=attempts)
            await asyncio.sleep(retry_after_s)
            attempts += 1

    async def _attempt(self, ask: Ask, due_s: float, sent_s: float) -> tuple[Record, float | None]:
        """One try: its record, and after how many seconds a refusing server asked for another."""
        record = partial(Record, ask.index, due_s, sent_s)
        transcript, status, lost = Transcript(), None, None
        try:
            async with self._http.stream("POST", "chat/completions", json=self._body(ask)) as response:
                status = response.status_code
                if status != httpx.codes.OK:
                    detail = _refusal(status, await response.aread())
                    if status in REFUSALS:
                        return record(self.clock(), Outcome.REJECTED, detail, status), _retry_after_s(
                            response
                        )
                    return record(self.clock(), Outcome.FAILED, detail, status), None
                await self._read(response, transcript)
        except httpx.HTTPError as error:
            lost = f"{type(error).__name__}: {error}".rstrip(": ")
            if status is None:
                return record(self.clock(), Outcome.FAILED, lost), None
        ended_s = self.clock() if transcript.last_event_s is None else transcript.last_event_s
        outcome, detail = transcript.verdict(lost)
        return record(
            ended_s,
            outcome,
            detail,
            status,
            token_times_s=tuple(transcript.token_times_s),
            prompt_tokens=transcript.prompt_tokens,
            output_tokens=transcript.output_tokens,
            finish_reason=transcript.finish_reason,
            text="".join(transcript.texts),
        ), None

    async def _read(self, response: httpx.Response, transcript: Transcript) -> None:
        reader = EventReader()
        async for chunk in response.aiter_bytes():
            at_s = self.clock()
            for event in reader.push(chunk):
                transcript.event(event, at_s)
            if transcript.done:
                return

    def _body(self, ask: Ask) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": ask.prompt}],
            "max_tokens": ask.output_tokens,
            "seed": ask.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


def _refusal(status: int, body: bytes) -> str:
    try:
        return f"{status}: {error_message(orjson.loads(body))}"
    except orjson.JSONDecodeError:
        return f"{status}: {body[:200].decode(errors='replace')}".rstrip(": ")


def _retry_after_s(response: httpx.Response) -> float | None:
    """Seconds of `Retry-After`; None where there is none, or a date, which no serving engine sends."""
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
