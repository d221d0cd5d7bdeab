"""Whatever stands where a signed call's token should, it is refused, and nothing else is ever raised."""

import base64
import json
import random

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from headrace_engine.server.signed_call import Call, CallRejected, Nonces, key_id, verify

KEY = Ed25519PrivateKey.generate().public_key()


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


HEAD = encoded(json.dumps({"alg": "EdDSA", "kid": key_id(KEY)}).encode())
SIGNATURE = encoded(random.Random(1).randbytes(64))


def assert_refused(token: str) -> None:
    with pytest.raises(CallRejected):
        verify(
            *(token, Call("GET", "/v1/admin/limits", b"")),
            keys={key_id(KEY): KEY},
            audience="pod",
            nonces=Nonces(),
            now_s=0.0,
        )


@pytest.mark.parametrize(
    "token",
    [
        "",
        "..",
        "x" * 1_000_000,
        encoded(b"[" * 1500 + b"]" * 1500) + ".e30.x",
        encoded(b'{"a":' * 500 + b"1" + b"}" * 500) + ".e30.x",
        encoded(b'{"alg":"EdDSA","kid":["a"]}') + ".e30.x",
        encoded(b'{"alg":"EdDSA","kid":' + b"9" * 2900 + b"}") + ".e30.x",
        encoded(b'{"alg":"none"}') + ".e30.",
        encoded(b"null") + ".e30.x",
        f"{HEAD}.{encoded(b'[' * 2000)}.{SIGNATURE}",
        f"{HEAD}.e30.",
        f"{HEAD}..{SIGNATURE}",
    ],
    ids=lambda token: token[:24],
)
def test_a_token_made_to_break_the_reader(token) -> None:
    assert_refused(token)


@given(st.text(max_size=60) | st.binary(max_size=60).map(encoded))
def test_any_text(text) -> None:
    assert_refused(text)


@given(st.binary(max_size=60), st.binary(max_size=70))
def test_any_claims_under_a_head_that_is_right(claims, signature) -> None:
    assert_refused(f"{HEAD}.{encoded(claims)}.{encoded(signature)}")
