"""Open and closed loop, and `headrace bench` itself, on a real server."""

import asyncio
import json
import threading
from collections import Counter
from random import Random

import pytest
import typer
from typer.testing import CliRunner

from headrace_bench import cli, session
from headrace_bench.client import Client, http_client
from headrace_bench.load import Bounds, Load
from headrace_bench.record import Outcome
from headrace_bench.session import EndpointError, Settings
from headrace_bench.workload import Lengths, asks


def load_on(http, bounds):
    return Load(Client(http, "tiny"), asks(Lengths(5, 3), Random(0)), bounds)


async def test_a_closed_loop_keeps_so_many_at_once_and_stops_at_its_count(serving):
    async with serving(serving.stream("a", gap_s=0.005)) as (server, base_url), http_client(base_url) as http:
        load = load_on(http, Bounds(requests=12))
        await load.closed_loop(3)
    assert (len(load.records), load.sent, load.in_flight, server.most_open) == (12, 12, 0, 3)
    assert sorted(record.index for record in load.records) == list(range(12))


async def test_an_open_loop_does_not_wait_for_answers(serving):
    async with serving(serving.stream("a", gap_s=0.02)) as (server, base_url), http_client(base_url) as http:
        load = load_on(http, Bounds(requests=100, duration_s=0.1))
        await load.open_loop(iter([0.0, 0.01, 0.02, 0.03, 0.5]))
    assert len(load.records) == 4
    assert server.most_open == 4
    assert all(record.sent_s >= record.due_s for record in load.records)


async def test_a_duration_ends_the_sending_and_the_last_answers_are_read(serving):
    async with serving(serving.stream("a", gap_s=0.02)) as (_, base_url), http_client(base_url) as http:
        load = load_on(http, Bounds(duration_s=0.01))
        await load.closed_loop(4)
    assert [record.outcome for record in load.records] == [Outcome.OK] * 4
    assert load.elapsed_s > 0.05


async def test_stop_ends_a_load_from_another_thread(serving):
    async with serving(serving.stream("a", gap_s=0.005)) as (_, base_url), http_client(base_url) as http:
        load = load_on(http, Bounds(duration_s=600))
        threading.Timer(0.05, load.stop).start()
        await asyncio.wait_for(load.closed_loop(2), timeout=60)
    assert all(record.outcome is Outcome.OK for record in load.records)


async def test_users_pause_when_refused(serving):
    async with serving(serving.respond(429, b"{}")) as (server, base_url), http_client(base_url) as http:
        load = load_on(http, Bounds(duration_s=0.1))
        await load.closed_loop(1, pause_s=0.04)
    assert len(server.bodies) <= 4


async def test_one_bad_stream_among_good_ones_is_counted_once(serving):
    scripts = [serving.stream("a"), serving.stream("a", done=False), serving.stream("a")]
    async with serving(*scripts) as (_, base_url):
        load = await session.run(Settings(base_url, Lengths(5, 3), Bounds(requests=9), concurrency=2))
    assert Counter(record.outcome for record in load.records) == {Outcome.OK: 8, Outcome.BROKEN: 1}


async def test_an_endpoint_without_models_is_told_of(serving):
    with pytest.raises(EndpointError, match="--base-url"):
        await session.run(Settings("http://127.0.0.1:1/v1", Lengths(5, 3), Bounds(requests=1), concurrency=1))


async def bench(base_url, *arguments):
    app = typer.Typer()
    app.callback()(lambda: None)
    cli.register(app)
    return await asyncio.to_thread(CliRunner().invoke, app, ["bench", "--base-url", base_url, *arguments])


async def test_bench_prints_one_json_document(serving):
    async with serving(serving.stream("a", "b", gap_s=0.002)) as (server, base_url):
        done = await bench(base_url, "--rate", "200", "--requests", "5", "--ttft-slo", "5s", "--json")
    summary = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (summary["requests"], summary["ok"], summary["good"], summary["attainment_ratio"]) == (
        5,
        5,
        5,
        1.0,
    )
    assert summary["ttft"]["count"] == 5
    assert server.bodies[0]["model"] == "tiny"


async def test_bench_reports_for_people_and_fails_when_nothing_was_answered(serving):
    async with serving(serving.respond(429, b'{"error": {"message": "queue is full"}}')) as (_, base_url):
        done = await bench(base_url, "--concurrency", "1", "--requests", "2")
    assert done.exit_code == 1
    assert "2 rejected" in done.stdout
    assert "2 x 429: queue is full" in done.stdout


@pytest.mark.parametrize(
    "arguments", [[], ["--rate", "1", "--concurrency", "1"], ["--rate", "1", "--ttft-slo", "5 s"]]
)
async def test_bench_refuses_what_it_cannot_mean(arguments):
    done = await bench("http://127.0.0.1:1/v1", *arguments)
    assert done.exit_code == 2
