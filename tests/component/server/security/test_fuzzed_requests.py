"""Whatever comes, by a grammar of wild bodies and wild HTTP: a 4xx with the parameter's name or a closed
connection, never a 5xx, never a hang, and nothing stays behind.

`HEADRACE_FUZZ_REQUESTS` is about how many are tried.
"""

import contextlib
import json
import os
import select
import socket

import pytest
from attacked_server import Answer, AttackedServer, completion, post
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wild_requests import WildBody, WildConnection, one_wild_parameter, wild_bodies, wild_connections

NUM_REQUESTS = int(os.environ.get("HEADRACE_FUZZ_REQUESTS", "600"))
A_BATCH = 20
"""Requests that one innocent client is beside."""
A_MOMENT_S = 0.03
CONTINUE = 100
MAX_DEPTH = 64
pytestmark = pytest.mark.timeout(600 + NUM_REQUESTS // 10)
wild = settings(
    max_examples=NUM_REQUESTS // A_BATCH,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
TOGETHER = {
    "max_tokens",
    "min_tokens",
    "prompt",
    "messages",
    "tokens",
    "stream",
    "stream_options",
    "logprobs",
    "n",
}
"""Parameters that may be named where another was added to a body: the two do not go together."""


def batches(of: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(of, min_size=A_BATCH, max_size=A_BATCH)


def readable(content: bytes) -> bool:
    """Whether this is JSON that any reader takes, so that what is wrong with it has a name."""
    try:
        text = content.decode()
        return "\\u" not in text and depth_of(json.loads(text, object_pairs_hook=once)) <= MAX_DEPTH
    except (ValueError, RecursionError):
        return False


def depth_of(value: object) -> int:
    if not isinstance(value, dict | list):
        return 0
    inside = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, inside), default=0)


def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


@wild
@given(batch=batches(one_wild_parameter()))
def test_a_wild_value_is_answered_or_refused_by_its_parameters_name(
    target: AttackedServer, batch: list[WildBody]
) -> None:
    answers = target.unharmed(*(body.request for body in batch))
    for body, answer in zip(batch, answers, strict=True):
        assert answer.status in (200, 400, 404), body
        if answer.status != 200 and readable(body.content):
            assert answer.param is not None, body
            named = answer.param.partition("[")[0].partition(".")[0]
            assert named in TOGETHER or answer.param[:60] == (body.name or "")[:60] or named == body.name, (
                body
            )


@wild
@given(batch=batches(wild_bodies()))
def test_a_wild_body_is_answered_or_refused(target: AttackedServer, batch: list[WildBody]) -> None:
    answers = target.unharmed(*(body.request for body in batch))
    for body, answer in zip(batch, answers, strict=True):
        assert answer.status in (200, 400, 404, 413), body
        if answer.status != 200:
            assert json.loads(answer.body)["error"].keys() == {"message", "type", "param", "code"}


@wild
@given(batch=batches(wild_connections()))
def test_wild_http_is_answered_or_the_connection_closed(
    target: AttackedServer, batch: list[WildConnection]
) -> None:
    def attack() -> list[Answer]:
        return [sent_in_pieces(target, each) for each in batch]

    for answer in target.unharmed_by(attack):
        assert answer.status is None or answer.status == CONTINUE or 200 <= answer.status < 500
        assert b"\r\n\r\nHTTP/1.1 5" not in answer.received


def sent_in_pieces(target: AttackedServer, wild: WildConnection) -> Answer:
    """Leaves the server a moment to answer, then says that nothing more comes and reads to the end."""
    received = b""
    with target.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):
            for piece in wild.pieces:
                connection.sendall(piece)
            select.select([connection], [], [], A_MOMENT_S)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(1 << 16):
                received += piece
    return Answer(received)


def test_a_prompt_of_ten_megabytes_is_not_read(target: AttackedServer) -> None:
    (answer,) = target.unharmed(post(completion(prompt="word " * 2_000_000)))
    assert answer.status == 413
