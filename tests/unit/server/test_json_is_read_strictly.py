"""The strict reader agrees with Python's on all that is plain JSON, and is quick on everything else."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_engine.server.errors import ApiError
from headrace_engine.server.json_body import parse_object
from headrace_engine.server.json_shape import BodyBounds

BOUNDS = BodyBounds.of(4096)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=4),
    max_leaves=20,
)


def status(body: bytes) -> int | None:
    """What the client would get; None where it is served."""
    try:
        parse_object(body, BOUNDS)
    except ApiError as error:
        return error.status
    return None


@given(st.dictionaries(st.text("abc", max_size=3), plain, max_size=5), st.booleans())
def test_plain_json_is_what_python_reads(document, ascii_only) -> None:
    body = json.dumps(document, ensure_ascii=ascii_only).encode()
    assert parse_object(body, BOUNDS) == document


@given(st.binary(max_size=60))
def test_anything_else_is_a_400(body) -> None:
    assert status(body) in (None, 400)


@pytest.mark.parametrize(
    "body",
    [
        b'"' + b'\\"' * 250_000,
        b'"' * 500_001,
        b'{"a":"' + b"\\u0041" * 80_000 + b'"}',
        b"[" * 500_000,
        b"[]," * 160_000,
        b"{" + b'"a":{' * 80_000,
        b'{"a":' + b"1" * 500_000 + b"}",
        b'{"a":0.' + b"1" * 500_000 + b"}",
        b"\\" * 500_000,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_half_a_megabyte_of_anything_takes_time_in_proportion(body) -> None:
    began = time.process_time()
    assert status(body) in (None, 400)
    assert time.process_time() - began < 1, "it takes 20 ms; in proportion to the square, minutes"


def test_the_room_follows_the_context_and_ends_at_8_mib() -> None:
    assert BodyBounds.of(2048).max_bytes == (64 << 10) + 128 * 2048
    assert BodyBounds.of(1 << 20).max_bytes == 8 << 20
