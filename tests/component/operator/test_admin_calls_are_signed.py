"""The admin client against a server that verifies as an engine must, with PyJWT and the public key alone."""

import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_public_key,
)

from headrace_operator.observe.admin import AdminClient, AdminError, AdminKeyError, AdminTarget, Signer

POD_UID = "0b8c0f0e-1111-2222-3333-444455556666"


class Engine:
    """What an engine checks of a call, and a limits document with revisions."""

    def __init__(self, public_keys: str) -> None:
        self.keys = {
            key["kid"]: load_pem_public_key(key["pem"].encode()) for key in json.loads(public_keys)["keys"]
        }
        self.seen: list[dict[str, Any]] = []
        self.revision = 3
        self.limits = {"max_num_seqs": 4}
        self.raced = False

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        token = request.headers["Authorization"].removeprefix("Bearer ")
        key = self.keys[jwt.get_unverified_header(token)["kid"]]
        claims = jwt.decode(
            token,
            key,
            algorithms=["EdDSA"],
            audience=POD_UID,
            options={"require": ["exp", "iat", "jti", "aud"]},
        )
        digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
        assert (claims["htm"], claims["htu"], claims["bh"]) == (request.method, request.path_qs, digest)
        assert claims["exp"] - claims["iat"] <= 30
        assert claims["jti"] not in {other["jti"] for other in self.seen}
        self.seen.append(claims)
        if request.path == "/v1/admin/drain":
            return web.json_response(
                {"draining": True, "in_flight": 2, "asked": json.loads(body)}, status=202
            )
        if request.method == "PATCH":
            if self.raced or request.headers.get("If-Match") != f'"{self.revision}"':
                return web.json_response({"revision": self.revision}, status=412)
            self.limits |= json.loads(body)
            self.revision += 1
        return web.json_response(
            {"revision": self.revision, "limits": self.limits}, headers={"ETag": f'"{self.revision}"'}
        )


@pytest.fixture
def signer() -> Signer:
    return Signer(Ed25519PrivateKey.generate())


@pytest.fixture
async def engine(signer: Signer) -> AsyncIterator[Engine]:
    engine = Engine(signer.public_keys())
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", engine.handle)
    async with TestServer(app) as server:
        engine.target = AdminTarget(POD_UID, "127.0.0.1", server.port)  # type: ignore[attr-defined]
        yield engine


@pytest.fixture
async def admin(signer: Signer) -> AsyncIterator[AdminClient]:
    async with aclosing(AdminClient(signer=signer, wall_clock=time.time, timeout_s=60)) as client:
        yield client


async def test_limits_are_read(engine, admin):
    answer = await admin.limits(engine.target)
    assert (answer.document["limits"], answer.etag) == ({"max_num_seqs": 4}, '"3"')


async def test_limits_are_changed_against_the_revision_that_was_read(engine, admin):
    answer = await admin.set_limits(engine.target, {"max_num_seqs": 8, "max_num_batched_tokens": 512})
    assert answer.document["limits"] == {"max_num_seqs": 8, "max_num_batched_tokens": 512}
    assert [(claims["htm"], claims["htu"]) for claims in engine.seen] == [
        ("GET", "/v1/admin/limits"),
        ("PATCH", "/v1/admin/limits"),
    ]


async def test_a_change_that_lost_a_race_is_an_error_with_its_status(engine, admin):
    engine.raced = True
    with pytest.raises(AdminError) as caught:
        await admin.set_limits(engine.target, {"max_num_seqs": 8})
    assert caught.value.status == 412


async def test_a_drain_tells_how_long_it_may_take(engine, admin):
    answer = await admin.drain(engine.target, timeout_s=120)
    assert answer.document == {"draining": True, "in_flight": 2, "asked": {"timeout_s": 120}}


async def test_no_answer_is_an_error_without_a_status(admin):
    with pytest.raises(AdminError) as caught:
        await admin.limits(AdminTarget(POD_UID, "127.0.0.1", 9))
    assert caught.value.status is None


def test_a_token_is_good_for_one_pod_half_a_minute_and_one_call(signer: Signer):
    def claims_of(**changed: Any) -> dict[str, Any]:
        call = {
            "pod_uid": POD_UID,
            "method": "PATCH",
            "path": "/v1/admin/limits",
            "body": b"{}",
            "now_s": 1000.9,
        }
        [key] = json.loads(signer.public_keys())["keys"]
        token = signer.token(**(call | changed))
        public = load_pem_public_key(key["pem"].encode())
        return jwt.decode(
            token, public, algorithms=["EdDSA"], options={"verify_exp": False, "verify_aud": False}
        )

    claims = claims_of()
    assert (claims["iat"], claims["exp"]) == (1000, 1030)
    assert len(bytes.fromhex(claims["jti"])) == 16
    assert claims_of()["jti"] != claims["jti"]
    assert claims_of(pod_uid="other")["aud"] != claims["aud"]
    assert claims_of(method="POST")["htm"] != claims["htm"]
    assert claims_of(path="/v1/admin/drain")["htu"] != claims["htu"]
    assert claims_of(body=b"{ }")["bh"] != claims["bh"]


def test_a_key_is_loaded_from_its_file_and_named_by_its_public_half(tmp_path: Path):
    key = Ed25519PrivateKey.generate()
    file = tmp_path / "admin.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    signer = Signer.load(file)
    assert signer.key_id == hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]
    assert "PRIVATE" not in signer.public_keys()


def test_a_key_that_cannot_be_used_says_how_to_make_one(tmp_path: Path):
    wrong = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    (tmp_path / "wrong.pem").write_bytes(wrong)
    (tmp_path / "no.pem").write_text("no key")
    for name in ("wrong.pem", "no.pem", "absent.pem"):
        with pytest.raises(AdminKeyError, match="openssl genpkey -algorithm ed25519"):
            Signer.load(tmp_path / name)
