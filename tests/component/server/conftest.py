"""A real server on loopback around the smallest model there is: one that recites the alphabet.

The runner keeps its context where a real one does, in slots of a paged cache, so that answers are right
only if block tables and token positions are. Given "...c" it says "d", "e", ... and ends after "z".
"""

import asyncio
import codecs
import contextlib
import socket
import threading
import time
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
import pytest
from eventually import eventually
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

from headrace_engine.core.limits import Capacity
from headrace_engine.core.plan import Outcome, Plan, Row
from headrace_engine.core.sampling import TokenLogprobs
from headrace_engine.link.hosts import ThreadHost
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.http_server import address, listen
from headrace_engine.server.loading import starting_limits
from headrace_engine.server.model import LoadedModel
from headrace_engine.server.serve import EngineProcess

T = TypeVar("T")
EOS, TURN = 256, 257
VOCABULARY = 258
POISON = ord("~")
PATIENCE_S = 60.0
"""For what is sure to come, but on a busy machine late."""
HEARD_S = 0.15
"""By then a core has read what is in its socket."""


def likely(token_id: int, num_top: int) -> TokenLogprobs:
    """The first of its row, before the capitals."""
    tops = [token_id, *range(ord("A"), ord("A") + num_top)][:num_top]
    return TokenLogprobs(-0.25, 1, tuple(tops), tuple(-0.25 - place for place in range(num_top)))


def unlikely(num_top: int) -> TokenLogprobs:
    """A token that comes after the capitals."""
    tops = range(ord("A"), ord("A") + num_top)
    return TokenLogprobs(-30.5, 40, tuple(tops), tuple(-0.5 - place for place in range(num_top)))


class Alphabet:
    """A model and its cache. `step_s` makes it slow, a `~` in a prompt makes its step fail."""

    def __init__(self, *, num_blocks: int, block_size: int, step_s: float = 0.0) -> None:
        self.block_size = block_size
        self.step_s = step_s
        self.cache = [EOS] * (num_blocks * block_size)
        self.plans: list[Plan] = []
        self.may_step = threading.Event()
        self.may_step.set()

    def run(self, plan: Plan) -> Outcome:
        assert self.may_step.wait(timeout=100)
        self.plans.append(plan)
        if self.step_s:
            time.sleep(self.step_s)
        sampled = {row.request_id: [self._next(row)] for row in plan.rows if self._write(row)}
        logprobs = {
            row.request_id: [likely(token_id, row.sampling.logprobs) for token_id in sampled[row.request_id]]
            for row in plan.rows
            if row.sampled_rows and row.sampling.logprobs is not None
        }
        of_prompts = {
            row.request_id: [unlikely(row.sampling.prompt_logprobs) for _ in row.scoring.successors]
            for row in plan.rows
            if row.scoring is not None
        }
        return Outcome(sampled, self.step_s, logprobs, of_prompts)

    def _slot(self, row: Row, position: int) -> int:
        return row.block_table[position // self.block_size] * self.block_size + position % self.block_size

    def _write(self, row: Row) -> int:
        for offset, token_id in enumerate(row.token_ids):
            if token_id == POISON:
                raise RuntimeError("this step cannot be computed")
            self.cache[self._slot(row, row.start + offset)] = token_id
        return row.sampled_rows

    def _next(self, row: Row) -> int:
        last = self.cache[self._slot(row, row.start + len(row.token_ids) - 1)]
        if last == ord("z"):
            return EOS
        return last + 1 if ord("a") <= last < ord("z") else ord("a")


class Bytes:
    """One token a byte; a turn of a conversation ends with a control token."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        decoder = self.decoder(skip_special_tokens=skip_special_tokens)
        return decoder.push(token_ids) + decoder.flush()

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> list[int]:
        ids = [token for message in messages for token in (*message["content"].encode(), TURN)]
        return ids[:-1] if variables.get("continue_final_message") else ids

    def decoder(self, *, skip_special_tokens: bool = True) -> "ByteDecoder":
        return ByteDecoder(self, skip_special_tokens)

    def token_string(self, token_id: int) -> str:
        return self.token_bytes(token_id).decode("latin-1")

    def token_bytes(self, token_id: int) -> bytes:
        return {EOS: b"<end>", TURN: b"<turn>"}.get(token_id) or bytes([token_id])


class ByteDecoder:
    def __init__(self, spelling: Bytes, skip_special_tokens: bool) -> None:
        self._spelling = spelling
        self._skips = skip_special_tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, ids: Sequence[int]) -> str:
        shown = [token for token in ids if token < 256 or not self._skips]
        return self._decoder.decode(b"".join(map(self._spelling.token_bytes, shown)))

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


def new_client() -> httpx.Client:
    """A connection for each request. No TLS is spoken here, and loading its roots would take long."""
    return httpx.Client(timeout=PATIENCE_S, verify=False, limits=httpx.Limits(max_keepalive_connections=0))


@dataclass
class RunningServer:
    """A server on a thread of its own, with the model at hand."""

    config: ServeConfig
    model: Alphabet
    process: EngineProcess | None = None
    exit_code: int | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _loop: asyncio.AbstractEventLoop | None = None
    url: str = ""
    admin_url: str = ""
    http: httpx.Client = field(default_factory=new_client)

    def start(self, limits: HttpLimits, load: Callable[[], LoadedModel], *, wait: bool) -> None:
        serving, admin = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
        self.url, self.admin_url = address(serving), address(admin)
        ready = threading.Event()

        async def serve() -> int:
            self._loop = asyncio.get_running_loop()
            self.process = EngineProcess(
                self.config,
                starting_limits(self.config),
                ThreadHost(load),
                serving_socket=serving,
                admin_socket=admin,
                http_limits=limits,
                on_ready=lambda _serving: ready.set(),
            )
            return await self.process.run()

        def run() -> None:
            self.exit_code = asyncio.run(serve())
            self._ended.set()

        threading.Thread(target=run, daemon=True).start()
        if wait:
            assert ready.wait(timeout=PATIENCE_S)

    def terminate(self) -> None:
        assert self._loop is not None
        assert self.process is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.process.terminate)

    def step_on(self) -> None:
        """Lets a model that was held compute again: one long step, so that what was asked meanwhile is heard
        before the next.
        """
        steps, self.model.step_s = len(self.model.plans), HEARD_S
        self.model.may_step.set()
        self.eventually(lambda: len(self.model.plans) > steps)
        self.model.step_s = 0.0

    def on_loop(self, call: Callable[[], object]) -> None:
        """Runs a call on the server's event loop, which stands still meanwhile."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(call)

    def ended(self, timeout_s: float = PATIENCE_S) -> int:
        assert self._ended.wait(timeout_s), "the server did not end"
        assert self.exit_code is not None
        return self.exit_code

    def client(self, **options: Any) -> OpenAI:
        return OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, **options)

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return self.http.post(self.url + path, json=body, **options)

    def raw(self, request: bytes, timeout_s: float = PATIENCE_S) -> bytes:
        """What the server sends on one connection until it closes it."""
        with self.connect(timeout_s) as connection:
            connection.sendall(request)
            return self.read_all(connection)

    def connect(self, timeout_s: float = PATIENCE_S) -> socket.socket:
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout_s)

    def accepted(self, connection: socket.socket) -> TransportSocket:
        """The server's end of a connection."""
        ours, transports = connection.getsockname(), list(self._loop._transports.values())
        (end,) = (each for each in transports if each.get_extra_info("peername") == ours)
        return end.get_extra_info("socket")

    @staticmethod
    def read_all(connection: socket.socket) -> bytes:
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                received += piece
        return received

    def metric(self, name: str, /, **labels: str) -> float:
        """A sample's value; 0 where there is none yet."""
        return sum(
            value
            for sample, found, value in self.samples(name)
            if sample == name and labels.items() <= found.items()
        )

    def samples(self, prefix: str = "") -> list[tuple[str, dict[str, str], float]]:
        lines = self.http.get(self.url + "/metrics").text.splitlines(keepends=True)
        families = text_string_to_metric_families("".join(line for line in lines if line.startswith(prefix)))
        return [(s.name, s.labels, s.value) for family in families for s in family.samples]

    def eventually(self, holds: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
        found: T = eventually(holds, within_s=timeout_s)
        return found


Start = Callable[..., RunningServer]


def make_server(
    *,
    limits: HttpLimits | None = None,
    step_s: float = 0.0,
    max_num_seqs: int = 8,
    max_model_len: int = 256,
    num_blocks: int = 128,
    max_num_batched_tokens: int = 64,
    load: Callable[[LoadedModel], LoadedModel] = lambda model: model,
    wait: bool = True,
    **config: Any,
) -> RunningServer:
    block_size = 4
    model = Alphabet(num_blocks=num_blocks, block_size=block_size, step_s=step_s)
    capacity = Capacity(max_num_seqs, max_num_batched_tokens, max_model_len, num_blocks, block_size)
    loaded = LoadedModel(
        runner=model,
        tokenizer=Bytes(),
        capacity=capacity,
        vocab_size=VOCABULARY,
        eos_token_ids=frozenset({EOS}),
        dtype="float32",
    )
    settings = ServeConfig(
        model="alphabet",
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_model_len=max_model_len,
        shutdown_timeout_s=config.pop("shutdown_timeout_s", PATIENCE_S),
        drain_grace_s=config.pop("drain_grace_s", 0.0),
        **config,
    )
    server = RunningServer(settings, model)
    server.start(limits or HttpLimits(), lambda: load(loaded), wait=wait)
    return server


@pytest.fixture(scope="session")
def leaving() -> Iterator[list[RunningServer]]:
    """Servers that were told to stop, which takes them a moment; the tests need not wait for it."""
    servers: list[RunningServer] = []
    yield servers
    for server in servers:
        server.ended()


def starter(leaving: list[RunningServer]) -> Iterator[Start]:
    started: list[RunningServer] = []

    def begin(**options: Any) -> RunningServer:
        started.append(make_server(**options))
        return started[-1]

    yield begin
    for server in started:
        server.model.may_step.set()
        server.terminate()
        server.terminate()
    leaving += started


@pytest.fixture
def start(leaving: list[RunningServer]) -> Iterator[Start]:
    """Starts servers as a test asks for them; each is stopped after it."""
    yield from starter(leaving)


@pytest.fixture(scope="module")
def run_server(leaving: list[RunningServer]) -> Iterator[Start]:
    """The same, for servers that the tests of a module share."""
    yield from starter(leaving)


@pytest.fixture(scope="module")
def server(run_server: Start) -> RunningServer:
    """One server for the tests of a module that only ask."""
    return run_server()
