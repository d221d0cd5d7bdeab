"""A server that is attacked and watched from outside while an innocent client reads beside it.

What holds for every request there is: the process lives, its event loop never stands still for longer than
250 ms, no request costs it more than 64 MiB, nothing is a 5xx, the innocent client reads the same tokens as
when it was alone, and nothing stays behind.
"""

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx

MOST_STALL_S = 0.25
PATIENCE_S = 60.0
"""For what is sure to come, but on a busy machine late."""
NUM_TRIES = 4
MOST_GROWTH_BYTES = 64 << 20
MODEL = "target"
INNOCENT = {
    "model": MODEL,
    "prompt": "Once upon a time",
    "max_tokens": 24,
    "temperature": 0,
    "ignore_eos": True,
}


@dataclass(frozen=True)
class Answer:
    """What came back on one connection until the server closed it."""

    received: bytes

    @property
    def status(self) -> int | None:
        """None: nothing came."""
        return int(self.received.split(b" ", 2)[1]) if self.received.startswith(b"HTTP/1.1 ") else None

    @cached_property
    def body(self) -> bytes:
        return self.received.partition(b"\r\n\r\n")[2]

    @property
    def param(self) -> str | None:
        """The parameter that an error names."""
        return json.loads(self.body)["error"]["param"]


@dataclass(frozen=True)
class Seen:
    """What requests did to the server."""

    answers: list[Answer]
    stall_s: float
    grown_bytes: int
    innocent_text: str


class AttackedServer:
    """`process` runs `target.py`, whose protocol this speaks."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        self.http = httpx.Client(
            timeout=PATIENCE_S, verify=False, limits=httpx.Limits(max_keepalive_connections=0)
        )
        self._pool = ThreadPoolExecutor(2)
        self.innocent_text = self._innocent()

    def unharmed(self, *requests: bytes) -> list[Answer]:
        """Sends the requests one after the other, and asserts what holds for every one."""
        return self.unharmed_by(lambda: [self.send(request) for request in requests])

    def unharmed_by(self, attack: Callable[[], list[Answer]]) -> list[Answer]:
        """A stall is believed if it comes again and again: the machine may have taken its processor away in
        the middle of a tick, while threads beside it went on.
        """
        for _ in range(NUM_TRIES):
            seen = self.watched(attack)
            if seen.stall_s <= MOST_STALL_S:
                break
        assert self.process.poll() is None, "the server is gone"
        assert seen.stall_s <= MOST_STALL_S
        assert seen.grown_bytes <= MOST_GROWTH_BYTES
        assert seen.innocent_text == self.innocent_text
        assert [answer.received[:99] for answer in seen.answers if (answer.status or 0) >= 500] == []
        assert self.http.get(self.url + "/livez").status_code == 200
        self._await_rest()
        return seen.answers

    def send(self, request: bytes) -> Answer:
        received = b""
        with self.connect() as connection, contextlib.suppress(ConnectionError):
            connection.sendall(request)
            while piece := connection.recv(1 << 16):
                received += piece
        return Answer(received)

    def connect(self) -> socket.socket:
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE_S)

    def watched(self, attack: Callable[[], list[Answer]]) -> Seen:
        """Attacks, and tells what came of it."""
        self._told("begin")
        innocent = self._pool.submit(self._innocent)
        answers, text = attack(), innocent.result()
        told = self._told("end")
        return Seen(answers, told["stall_s"], told["grown_bytes"], text)

    def _innocent(self) -> str:
        text = ""
        body = INNOCENT | {"stream": True}
        with self.http.stream("POST", self.url + "/v1/completions", json=body) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    text += json.loads(line[6:])["choices"][0]["text"]
        return text

    def _await_rest(self) -> None:
        """Whoever read an answer to its end may ask before the server has put it away."""
        until_s = time.monotonic() + PATIENCE_S
        while self._in_flight():
            assert time.monotonic() < until_s, "something stays behind"
            time.sleep(0.01)

    def _in_flight(self) -> float:
        lines = self.http.get(self.url + "/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("headrace_in_flight{"))

    def _told(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(line, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def completion(**change: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": "a", "max_tokens": 1} | change


def chat(content: Any = "a", **change: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {"model": MODEL, "messages": messages, "max_tokens": 1} | change


def post(body: bytes | dict[str, Any], *headers: str, path: str | None = None) -> bytes:
    """A whole request, after which the connection ends."""
    content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    given = {header.partition(":")[0].lower() for header in headers}
    if path is None:
        is_chat = isinstance(body, dict) and "messages" in body
        path = "/v1/chat/completions" if is_chat else "/v1/completions"
    own = {"host": "x", "connection": "close", "content-type": "application/json"}
    if "transfer-encoding" not in given:
        own["content-length"] = str(len(content))
    lines = [f"{name}: {value}" for name, value in own.items() if name not in given]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, *headers, "", ""]).encode() + content
