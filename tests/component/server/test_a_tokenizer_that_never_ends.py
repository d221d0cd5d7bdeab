"""A model whose tokenizer comes to no end with some texts: those are refused, others are served beside,
and once too many of them compute the engine says that it wants a restart.
"""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.component.server.conftest import Bytes

from headrace_engine.server import encoders, prompts
from headrace_engine.server.encoders import MOST_LOST

MUCH = bytes(1 << 20)
ASKED = {"model": "alphabet", "prompt": "a", "max_tokens": 3}


class Endless(Bytes):
    """Computes over a text with an `@` until it is let go."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        while "@" in text and not self.may_end.is_set():
            hashlib.sha256(MUCH)  # without the interpreter's lock, as the library does
        return super().encode(text)


@pytest.fixture
def endless(monkeypatch) -> Iterator[Endless]:
    monkeypatch.setattr(encoders, "LOOK_S", 0.01)
    monkeypatch.setattr(prompts, "MOST_CPU_S", 0.05)
    tokenizer = Endless()
    yield tokenizer
    tokenizer.may_end.set()


def test_its_texts_are_refused_and_others_served_until_there_are_too_many(start, endless) -> None:
    server = start(load=lambda model: replace(model, tokenizer=endless))
    with ThreadPoolExecutor(MOST_LOST) as clients:
        for _ in range(MOST_LOST - 1):
            hung = clients.submit(server.post, "/v1/completions", ASKED | {"prompt": "hello @"})
            assert server.post("/v1/completions", ASKED).json()["choices"][0]["text"] == "bcd"
            refused = hung.result()
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt")
            assert "takes too much time" in refused.json()["error"]["message"]
    assert server.http.get(server.url + "/livez").status_code == 200
    assert server.post("/tokenize", {"prompt": "@"}).status_code == 400
    assert server.http.get(server.url + "/livez").status_code == 503
    assert server.post("/v1/completions", ASKED).json()["error"]["code"] == "tokenizer_stuck"
    endless.may_end.set()
    server.eventually(lambda: server.http.get(server.url + "/livez").status_code == 200)
    assert server.post("/v1/completions", ASKED).status_code == 200
