"""What the streams of HTTP cost the step loop: `python tests/bench/http_cost.py [STREAMS [REPEATS]]`.

A real server on real sockets, whose model is nothing but the time of a step. Told is the period of the steps
that run all streams: of the loop alone, with its core on threads of HTTP's process, and with its core in a
process of its own, as `headrace serve` has it. The clients are a process too. It takes two minutes.
"""

import asyncio
import hashlib
import json
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Outcome, Plan
from headrace_engine.core.request import Request
from headrace_engine.link.core import EngineCore, scheduler
from headrace_engine.link.hosts import CoreHost, ThreadHost
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.http_server import listen
from headrace_engine.server.loop import StepLoop
from headrace_engine.server.model import LoadedModel, ModelFacts
from headrace_engine.server.rules import Rules
from headrace_engine.server.serve import EngineProcess

CALLS = 300
"""A model of thirty layers makes about so many calls a step; in each it lets go of the interpreter's lock."""
KINDS = {
    "waits 10 ms": (10.0, 0.0),
    "makes 300 calls in 10 ms": (10.0, 0.3),
    "computes 100 ms": (100.0, 1.0),
}
"""Milliseconds of a step, and the share of them in which it computes; else it waits, as for a GPU."""
CLIENT = """
import socket, sys, time
port, streams, body = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
head = b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\n"
head += b"Connection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body)
tails = {}
for _ in range(streams):
    stream = socket.create_connection(("127.0.0.1", port))
    stream.sendall(head + body)
    stream.setblocking(False)
    tails[stream] = b""
while tails:
    time.sleep(0.05)
    for stream, tail in list(tails.items()):
        try:
            piece = stream.recv(1 << 16)
        except BlockingIOError:
            continue
        tails[stream] = (tail + piece)[-64:]
        if not piece:
            assert b"[DONE]" in tails.pop(stream), tail
"""
"""Reads in large pieces, because real clients take none of this machine's processors."""


@dataclass
class Timed:
    """A model that takes `step_ms` when nobody disturbs it, and notes when each step began."""

    step_ms: float
    computing_ratio: float
    began_s: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        data, n = b"x" * 65536, 200
        before_s = time.thread_time()
        for _ in range(n):
            hashlib.sha256(data).digest()
        call_s = (time.thread_time() - before_s) / n
        wanted_s = self.step_ms / 1000 * self.computing_ratio / CALLS
        self._data = b"x" * int(65536 * wanted_s / call_s)

    def run(self, plan: Plan) -> Outcome:
        began_s = time.perf_counter()
        self.began_s.append(began_s)
        self.rows.append(len(plan.rows))
        if self._data:
            for _ in range(CALLS):
                hashlib.sha256(self._data).digest()
        time.sleep(max(0.0, self.step_ms / 1000 - (time.perf_counter() - began_s)))
        return Outcome({row.request_id: [97] for row in plan.rows if row.sampled_rows}, self.step_ms / 1000)

    def period(self, streams: int) -> "Period":
        gaps = [
            after - before
            for before, after, rows in zip(self.began_s, self.began_s[1:], self.rows, strict=False)
            if rows == streams
        ]
        return Period(statistics.median(gaps) * 1000, statistics.mean(gaps) * 1000)


class Period(NamedTuple):
    """Of steps that ran all streams. The median forgives what else the machine does; the mean does not."""

    median_ms: float
    mean_ms: float

    @classmethod
    def typical(cls, runs: Iterable["Period"]) -> "Period":
        return cls(*map(statistics.median, zip(*runs, strict=True)))


class Letters:
    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def apply_chat_template(self, messages) -> list[int]:
        return [token for message in messages for token in message["content"].encode()]

    def decoder(self, **_: bool) -> "Letters":
        return self

    def push(self, ids) -> str:
        return " word" * len(ids)

    def flush(self) -> str:
        return ""


def facts(streams: int) -> ModelFacts:
    capacity = Capacity(streams, max(2048, streams), 512, streams * 32, 16)
    return ModelFacts(capacity=capacity, vocab_size=256, eos_token_ids=frozenset({0}), dtype="float32")


@dataclass
class BenchProcess:
    """A core in a process of its own, around a `Timed` model."""

    kind: str
    streams: int
    told: Path
    pid: int | None = None

    def start(self) -> socket.socket:
        near, far = socket.socketpair()
        with far:
            told = ["core", str(far.fileno()), self.kind, str(self.streams), self.told]
            self._child = subprocess.Popen([sys.executable, __file__, *told], pass_fds=[far.fileno()])
        return near

    def tokenizer(self, _directory: Path) -> Letters:
        return Letters()

    def end(self, timeout_s: float) -> None:
        self._child.wait(timeout_s)


def core(fd: str, kind: str, streams: str, told: str) -> None:
    model = Timed(*KINDS[kind])

    def load(found) -> tuple[Timed, ModelFacts]:
        found(Path())
        return model, facts(int(streams))

    EngineCore(socket.socket(fileno=int(fd)), load).run()
    Path(told).write_text(json.dumps([model.began_s, model.rows]))


def alone(kind: str, streams: int, tokens: int) -> Period:
    """The period of the same loop when nobody hears what it does."""
    model, known = Timed(*KINDS[kind]), facts(streams)
    rules = Rules(Limits.of(known.capacity))
    loop = StepLoop(
        scheduler(known.capacity, rules, enable_prefix_caching=True),
        model,
        deliver=lambda _report: None,
        on_failure=lambda: None,
    )
    loop.submit([Request(f"r{n}", (1, 2, 3), max_tokens=tokens, arrival_s=0.0) for n in range(streams)])
    loop.start()
    while len(model.began_s) < tokens:
        time.sleep(0.05)
    loop.stop()
    return model.period(streams)


async def served(host: CoreHost, streams: int, tokens: int) -> float:
    """Microseconds of processor that HTTP's process takes for each token; its core's on top, if it has it."""
    config = ServeConfig(model="m", max_num_seqs=streams, max_num_batched_tokens=max(2048, streams))
    listening, ready = listen("127.0.0.1", 0), asyncio.Event()
    process = EngineProcess(
        *(config, Limits.of(facts(streams).capacity), host),
        serving_socket=listening,
        http_limits=HttpLimits(max_connections=4 * streams, max_connections_per_address=4 * streams),
        on_ready=lambda _serving: ready.set(),
    )
    running = asyncio.create_task(process.run())
    await ready.wait()
    body = {"model": "m", "stream": True, "max_tokens": tokens, "ignore_eos": True}
    body["messages"] = [{"role": "user", "content": "Say something about rivers."}]
    told = str(listening.getsockname()[1]), str(streams), json.dumps(body)
    began = resource.getrusage(resource.RUSAGE_THREAD)
    client = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, *told)
    assert await client.wait() == 0
    ended = resource.getrusage(resource.RUSAGE_THREAD)
    process.terminate()
    process.terminate()
    await running
    return (ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime) * 1e6 / (streams * tokens)


def in_threads(kind: str, streams: int, tokens: int) -> tuple[Period, float]:
    model = Timed(*KINDS[kind])
    known = facts(streams)
    loaded = LoadedModel(
        runner=model,
        tokenizer=Letters(),
        capacity=known.capacity,
        vocab_size=known.vocab_size,
        eos_token_ids=known.eos_token_ids,
        dtype=known.dtype,
    )
    http_us = asyncio.run(served(ThreadHost(lambda: loaded), streams, tokens))
    return model.period(streams), http_us


def in_processes(kind: str, streams: int, tokens: int) -> tuple[Period, float]:
    with tempfile.TemporaryDirectory() as directory:
        told = Path(directory) / "steps.json"
        http_us = asyncio.run(served(BenchProcess(kind, streams, told), streams, tokens))
        model = Timed(*KINDS[kind], *json.loads(told.read_text()))
    return model.period(streams), http_us


def main(streams: int = 256, repeats: int = 3) -> None:
    print(f"{streams} streams, {repeats} runs: period of a step in ms, median and mean, and what it loses")
    print(f"{'a step':26}{'alone':>15}{'threads':>31}{'processes':>31}{'HTTP, us a token':>18}")
    for kind, (step_ms, _) in KINDS.items():
        asked = (kind, streams, 200 if step_ms < 50 else 60)
        runs = [(alone(*asked), in_threads(*asked), in_processes(*asked)) for _ in range(repeats)]
        quiet = Period.typical(run[0] for run in runs)
        told = f"{kind:26}{quiet.median_ms:8.2f}{quiet.mean_ms:7.2f}"
        for served_by in (1, 2):
            period = Period.typical(run[served_by][0] for run in runs)
            for ms, quiet_ms in zip(period, quiet, strict=True):
                told += f"{ms:8.2f}{ms / quiet_ms - 1:+7.1%}"
            told += " "
        print(f"{told}{statistics.median(run[2][1] for run in runs):17.1f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["core"]:
        core(*sys.argv[2:])
    else:
        main(*map(int, sys.argv[1:]))
