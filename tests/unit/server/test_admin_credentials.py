"""Credentials that could let nobody in, or too many, are refused at the start."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from headrace_engine.server.admin_auth import MOST_REFUSALS_LOGGED, Refusals
from headrace_engine.server.admin_credentials import AdminCredentials
from headrace_engine.server.signed_call import key_id

KEY = Ed25519PrivateKey.generate().public_key()


def pem(key) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def keys_file(tmp_path: Path, *entries: object) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": entries}))
    return path


def test_none_given_opens_no_port() -> None:
    assert not AdminCredentials(pod_uid="u").given
    AdminCredentials().check()


def test_keys_of_a_pod_are_good(tmp_path) -> None:
    two = [{"kid": key_id(key), "pem": pem(key)} for key in (KEY, Ed25519PrivateKey.generate().public_key())]
    AdminCredentials(keys_file(tmp_path, *two), pod_uid="u").check()


def test_signed_calls_need_to_know_whom_they_are_addressed_to(tmp_path) -> None:
    with pytest.raises(ValueError, match="--pod-uid"):
        AdminCredentials(keys_file(tmp_path, {"kid": key_id(KEY), "pem": pem(KEY)})).check()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kid": "0" * 16, "pem": pem(KEY)}, "is not the id of its key"),
        ({"kid": key_id(KEY), "pem": "-----BEGIN PUBLIC KEY-----"}, "cannot be read"),
        ({"kid": key_id(KEY)}, "cannot be read"),
        ("pem", "cannot be read"),
        ({"kid": "x", "pem": pem(generate_private_key(SECP256R1()).public_key())}, "not an Ed25519"),
    ],
)
def test_a_key_that_is_none_is_refused(tmp_path, entry, message) -> None:
    with pytest.raises(ValueError, match=message):
        AdminCredentials(keys_file(tmp_path, entry), pod_uid="u").check()


def test_a_token_that_can_be_guessed_is_refused(tmp_path) -> None:
    path = tmp_path / "token"
    path.write_text("hunter2\n")
    with pytest.raises(ValueError, match="43 characters"):
        AdminCredentials(token_file=path).check()


def test_a_flood_of_refused_calls_fills_no_disk(caplog) -> None:
    now_s = [0.0]
    refusals = Refusals(lambda: now_s[0])
    for _ in range(5000):
        refusals.tell("no bearer token", "/v1/admin/limits")
    assert len(caplog.records) == MOST_REFUSALS_LOGGED
    now_s[0] = 60.0
    refusals.tell("no bearer token", "/" + "x" * 5000)
    told = [vars(record) for record in caplog.records[MOST_REFUSALS_LOGGED:]]
    assert [line.get("number") for line in told] == [5000 - MOST_REFUSALS_LOGGED, None]
    assert len(told[-1]["path"]) == 200
