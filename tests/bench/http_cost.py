"""What 256 streams cost the step loop: `python tests/bench/http_cost.py [STREAMS] [STEP_MS]`.

A real server on real sockets, with a model that is nothing but a step of STEP_MS of computing outside the
interpreter's lock, in many short calls as torch does. The clients are a process of their own. Told are the
steps' median period alone and with the streams, and the processor time that HTTP takes for each token.
"""

import asyncio
import hashlib
import json
import resource
import statistics
import sys
import time
from dataclasses import dataclass, field

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Outcome, Plan
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.engine import LoadedModel
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.http_server import listen
from headrace_engine.server.serve import EngineProcess

CALLS_A_STEP = 300
"""A model of thirty layers makes about so many calls."""
TOKENS = 40
CLIENT = """
import asyncio, sys
port, streams, body = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
head = b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\n"
head += b"Connection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body)
async def one():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head + body)
    data = await reader.read(-1)
    assert b"[DONE]" in data, data[:300]
async def all_of_them():
    await asyncio.gather(*(one() for _ in range(streams)))
asyncio.run(all_of_them())
"""


@dataclass
class Computing:
    """Takes `step_s` of wall clock a step when nobody disturbs it."""

    step_s: float
    started_s: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    _rounds: int = 1

    def __post_init__(self) -> None:
        data, n = b"x" * 65536, 200
        began_s = time.thread_time()
        for _ in range(n):
            hashlib.sha256(data).digest()
        call_s = (time.thread_time() - began_s) / n
        self._data = b"x" * max(4096, int(65536 * self.step_s / CALLS_A_STEP / call_s))

    def run(self, plan: Plan) -> Outcome:
        self.started_s.append(time.perf_counter())
        self.rows.append(len(plan.rows))
        for _ in range(CALLS_A_STEP):
            hashlib.sha256(self._data).digest()
        return Outcome({row.request_id: [97] for row in plan.rows if row.sampled_rows}, self.step_s)


class Letters:
    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def apply_chat_template(self, messages) -> list[int]:
        return [token for message in messages for token in message["content"].encode()]

    def decoder(self) -> "Letters":
        return self

    def push(self, ids) -> str:
        return " word" * len(ids)

    def flush(self) -> str:
        return ""


async def serve(streams: int, model: Computing) -> dict[str, float]:
    capacity = Capacity(streams, max(2048, streams), 256, streams * 8, 16)
    loaded = LoadedModel(model, Letters(), capacity, 256, frozenset({0}), "float32")
    config = ServeConfig(
        model="m", max_num_seqs=streams, max_num_batched_tokens=capacity.max_num_batched_tokens
    )
    socket, ready = listen("127.0.0.1", 0), asyncio.Event()
    process = EngineProcess(
        *(config, Limits.of(capacity), lambda: loaded),
        serving_socket=socket,
        http_limits=HttpLimits(max_connections=4 * streams, max_connections_per_address=4 * streams),
        on_ready=lambda _serving: ready.set(),
    )
    running = asyncio.create_task(process.run())
    await ready.wait()
    body = json.dumps(
        {
            "model": "m",
            "stream": True,
            "max_tokens": TOKENS,
            "ignore_eos": True,
            "messages": [{"role": "user", "content": "Say something about rivers."}],
        }
    )
    port = socket.getsockname()[1]
    began = resource.getrusage(resource.RUSAGE_THREAD)
    client = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, str(port), str(streams), body)
    assert await client.wait() == 0
    ended = resource.getrusage(resource.RUSAGE_THREAD)
    process.terminate()
    process.terminate()
    await running
    gaps = [
        b - a
        for a, b, rows in zip(model.started_s, model.started_s[1:], model.rows, strict=False)
        if rows == streams
    ]
    a_token = 1e6 / (streams * TOKENS)
    return {
        "period_ms": statistics.median(gaps) * 1000,
        "holding_us": (ended.ru_utime - began.ru_utime) * a_token,
        "kernel_us": (ended.ru_stime - began.ru_stime) * a_token,
    }


def alone(model: Computing, steps: int = 20) -> float:
    """The period of a step when there is nothing else in the process."""
    plan = Plan(1, ())
    for _ in range(steps):
        model.run(plan)
    gaps = [b - a for a, b in zip(model.started_s, model.started_s[1:], strict=False)]
    model.started_s.clear()
    model.rows.clear()
    return statistics.median(gaps) * 1000


def main() -> None:
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    step_ms = float(sys.argv[2]) if len(sys.argv) > 2 else 100.0
    model = Computing(step_ms / 1000)
    quiet_ms = alone(model)
    seen = asyncio.run(serve(streams, model))
    print(f"{streams} streams, {len(model.rows)} steps")
    print(f"step alone          {quiet_ms:8.1f} ms")
    print(f"step with streams   {seen['period_ms']:8.1f} ms")
    print(f"HTTP a token        {seen['holding_us']:8.1f} us holding the interpreter's lock")
    print(f"                    {seen['kernel_us']:8.1f} us in the kernel, without it")


if __name__ == "__main__":
    main()
