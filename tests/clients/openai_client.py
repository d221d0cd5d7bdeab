"""Runs the cases with the official Python client, sync and async, and prints what it saw: a JSON line each.

    python openai_client.py cases.json '{"open": "http://127.0.0.1:8000", ...}'

It judges nothing. Any version of the package runs it, without anything of this project installed.
"""

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import observation
import openai

Case = dict[str, Any]


class Clients:
    """One client a server and key, as an application has; each case has its own patience."""

    def __init__(self, kind: Any, urls: dict[str, str]) -> None:
        self._kind = kind
        self._urls = urls
        self._made: dict[tuple[str, str], Any] = {}

    def of(self, case: Case) -> Any:
        server, key = case.get("server", "open"), case.get("api_key", "none")
        if (server, key) not in self._made:
            self._made[server, key] = self._kind(base_url=self._urls[server] + "/v1", api_key=key)
        return self._made[server, key].with_options(
            max_retries=case.get("max_retries", 0), timeout=case.get("timeout_s", 60.0)
        )


def call(client: Any, case: Case, *, raw: bool = False) -> Any:
    """The client's own function for this case."""
    of = {
        "chat": lambda: client.chat.completions,
        "completion": lambda: client.completions,
    }[case["call"]]()
    return of.with_raw_response.create if raw else of.create


def arguments(case: Case, *, stream: bool) -> dict[str, Any]:
    given = {"model": "alphabet"} | case["request"]
    if stream:
        given = {"stream_options": {"include_usage": True}} | given | {"stream": True}
    return given | {"extra_body": case.get("extra"), "extra_headers": case.get("headers")}


def of_crowd(case: Case) -> dict[str, Any]:
    return {"model": "alphabet", "stream": True, "extra_body": {"ignore_eos": True}} | case["crowd"][
        "request"
    ]


def of_raw(response: Any) -> dict[str, Any]:
    return observation.of_answer(response.parse()) | {
        "status": response.http_response.status_code,
        "content_type": response.headers["content-type"],
        "retried": response.retries_taken > 0,
    }


# --- sync ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def crowd(case: Case, client: openai.OpenAI) -> Iterator[None]:
    """Others are served meanwhile; the case begins once one of them speaks, or is refused."""
    if "crowd" not in case:
        yield
        return
    happened = {"speaks": threading.Event(), "refused": threading.Event()}

    def one() -> None:
        try:
            for _ in client.with_options(max_retries=0).completions.create(**of_crowd(case)):
                happened["speaks"].set()
        except openai.RateLimitError:
            happened["refused"].set()

    with ThreadPoolExecutor(case["crowd"]["size"]) as pool:
        for _ in range(case["crowd"]["size"]):
            pool.submit(one)
        happened[case["crowd"]["until"]].wait(timeout=60)
        yield


def ask(client: openai.OpenAI, case: Case, way: str) -> dict[str, Any]:
    if case["call"] == "models":
        return {"models": [model.id for model in client.models.list()]}
    if case["call"] == "model":
        return {"models": [client.models.retrieve(case["request"]["model"]).id]}
    if way == "raw":
        return of_raw(call(client, case, raw=True)(**arguments(case, stream=False)))
    if way == "whole":
        return observation.of_answer(call(client, case)(**arguments(case, stream=False)))
    seen = observation.Stream()
    with call(client, case)(**arguments(case, stream=True)) as stream:
        for chunk in stream:
            seen.add(chunk)
            if seen.num_chunks == case.get("leave_after_chunks"):
                return {"left": True}
    return seen.seen()


def run_sync(case: Case, way: str, client: openai.OpenAI) -> dict[str, Any]:
    try:
        with crowd(case, client):
            for _ in range(1 + bool(case.get("twice"))):
                seen = ask(client, case, way)
    except openai.OpenAIError as error:
        return observation.of_error(error)
    return seen


# --- async --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def async_crowd(case: Case, client: openai.AsyncOpenAI) -> AsyncIterator[None]:
    if "crowd" not in case:
        yield
        return
    happened = {"speaks": asyncio.Event(), "refused": asyncio.Event()}

    async def one() -> None:
        try:
            async for _ in await client.with_options(max_retries=0).completions.create(**of_crowd(case)):
                happened["speaks"].set()
        except openai.RateLimitError:
            happened["refused"].set()

    others = [asyncio.create_task(one()) for _ in range(case["crowd"]["size"])]
    try:
        await asyncio.wait_for(happened[case["crowd"]["until"]].wait(), timeout=60)
        yield
    finally:
        await asyncio.gather(*others)


async def ask_async(client: openai.AsyncOpenAI, case: Case, way: str) -> dict[str, Any]:
    if case["call"] == "models":
        return {"models": [model.id async for model in client.models.list()]}
    if case["call"] == "model":
        return {"models": [(await client.models.retrieve(case["request"]["model"])).id]}
    if way == "raw":
        return of_raw(await call(client, case, raw=True)(**arguments(case, stream=False)))
    if way == "whole":
        return observation.of_answer(await call(client, case)(**arguments(case, stream=False)))
    seen = observation.Stream()
    async with await call(client, case)(**arguments(case, stream=True)) as stream:
        async for chunk in stream:
            seen.add(chunk)
            if seen.num_chunks == case.get("leave_after_chunks"):
                return {"left": True}
    return seen.seen()


async def run_async(case: Case, way: str, client: openai.AsyncOpenAI) -> dict[str, Any]:
    try:
        async with async_crowd(case, client):
            for _ in range(1 + bool(case.get("twice"))):
                seen = await ask_async(client, case, way)
    except openai.OpenAIError as error:
        return observation.of_error(error)
    return seen


async def main(cases: list[Case], urls: dict[str, str]) -> None:
    blocking, non_blocking = Clients(openai.OpenAI, urls), Clients(openai.AsyncOpenAI, urls)
    for case in cases:
        for way in case.get("ways", ["whole", "stream"]):
            for kind, seen in (
                ("sync", await asyncio.to_thread(run_sync, case, way, blocking.of(case))),
                ("async", await run_async(case, way, non_blocking.of(case))),
            ):
                print(json.dumps({"case": case["name"], "way": f"{kind} {way}", "saw": seen}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), json.loads(sys.argv[2])))
