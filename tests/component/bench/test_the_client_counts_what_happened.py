"""The client against a real HTTP server that streams, refuses, drops and errs."""

import asyncio
import socket
from itertools import islice
from random import Random

import pytest

from headrace_bench.client import Client, http_client
from headrace_bench.record import Outcome
from headrace_bench.workload import Lengths, asks

ASK = next(asks(Lengths(5, 3), Random(0)))


async def send(base_url, **options):
    async with http_client(base_url, timeout_s=options.pop("timeout_s", 60.0)) as http:
        return await Client(http, "tiny", **options).send(ASK)


async def test_a_whole_stream_is_ok_with_its_tokens_and_times(serving):
    async with serving(serving.stream("Hel", "lo", gap_s=0.02)) as (server, base_url):
        record = await send(base_url)
    assert (record.outcome, record.text, record.finish_reason) == (Outcome.OK, "Hello", "stop")
    assert (record.prompt_tokens, record.output_tokens, record.status) == (9, 3, 200)
    assert len(record.itls_s) == 1
    assert record.itls_s[0] >= 0.01
    assert 0.01 <= record.ttft_s <= record.e2el_s
    body = server.bodies[0]
    assert (body["model"], body["max_tokens"], body["stream"]) == ("tiny", 3, True)
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    "options",
    [{"finish": None}, {"done": False}, {"done": False, "finish": None, "rude": True}, {"error": "blocks"}],
)
async def test_a_stream_that_does_not_end_as_it_should_is_broken(serving, options):
    async with serving(serving.stream("Hel", **options)) as (_, base_url):
        record = await send(base_url)
    assert record.outcome is Outcome.BROKEN
    assert record.detail
    assert record.ttft_s is not None
    assert record.e2el_s is None


async def test_a_stream_that_falls_silent_is_broken_at_the_timeout(serving):
    async with serving(serving.stream("a", "b", gap_s=600)) as (_, base_url):
        record = await send(base_url, timeout_s=0.5)
    assert record.outcome is Outcome.BROKEN
    assert "ReadTimeout" in record.detail


async def test_a_refusal_is_rejected_and_only_retried_when_asked(serving):
    busy = serving.respond(429, b'{"error": {"message": "queue is full"}}', **{"Retry-After": "0.01"})
    async with serving(busy, serving.stream("Hi")) as (server, base_url):
        record = await send(base_url)
        assert (record.outcome, record.attempts, len(server.bodies)) == (Outcome.REJECTED, 1, 1)
        assert record.detail == "429: queue is full"
    async with serving(busy, busy, serving.stream("Hi")) as (server, base_url):
        record = await send(base_url, max_retries=2)
    assert (record.outcome, record.attempts, len(server.bodies)) == (Outcome.OK, 3, 3)
    assert record.ttft_s >= 0.02  # the waits are the user's


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}])
async def test_without_seconds_to_wait_a_refusal_is_final(serving, headers):
    async with serving(serving.respond(503, b"draining", **headers)) as (server, base_url):
        record = await send(base_url, max_retries=3)
    assert (record.outcome, record.attempts, record.detail) == (Outcome.REJECTED, 1, "503: draining")
    assert len(server.bodies) == 1


async def test_an_error_of_the_server_fails_the_request(serving):
    async with serving(serving.respond(500, b"")) as (_, base_url):
        record = await send(base_url, max_retries=3)
    assert (record.outcome, record.detail, record.attempts) == (Outcome.FAILED, "500", 1)


async def test_an_error_event_before_the_first_token_fails_the_request(serving):
    async with serving(serving.stream(finish=None, error="no room")) as (_, base_url):
        record = await send(base_url)
    assert (record.outcome, record.detail) == (Outcome.FAILED, "no room")


async def test_a_refused_connection_fails_the_request():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        record = await send(f"http://127.0.0.1:{unused.getsockname()[1]}/v1")
    assert record.outcome is Outcome.FAILED
    assert "ConnectError" in record.detail


async def test_each_request_has_a_connection_of_its_own(serving):
    async with serving(serving.stream("Hi", gap_s=0.02)) as (server, base_url), http_client(base_url) as http:
        client = Client(http, "tiny")
        await asyncio.gather(*(client.send(ask) for ask in islice(asks(Lengths(5, 3), Random(0)), 20)))
    assert server.most_open == 20
