"""Signed calls to an engine's admin port: read and change its limits, drain it, read its records.

Each call carries a token of one use: made for one pod (by uid), one method, one path and one body, valid for
half a minute. The engine holds the public key only, so a pod that lies, or an address that passed to another
pod, learns nothing that could be used elsewhere.
"""

import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from yarl import URL

from headrace_engine.core.contract import Contract
from headrace_engine.core.policies import PolicyName
from headrace_operator.observe.body import BodyTooLargeError, read_bounded
from headrace_operator.runtimes.terms import change_of_terms

TOKEN_LIFETIME_S = 30
TIMEOUT_S = 5.0
MAX_REPLY_BYTES = 256 * 1024
LIMITS_PATH = "/v1/admin/limits"
DRAIN_PATH = "/v1/admin/drain"
TELEMETRY_PATH = "/v1/admin/telemetry"


class AdminError(Exception):
    """The engine did not do what was asked. `status` is None where there was no answer."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class AdminKeyError(Exception):
    """The signing key cannot be used; the message says what to do."""


class Signer:
    """Holds the private key; tells the public one."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        public = key.public_key()
        self.key_id = hashlib.sha256(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]
        self.public_pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    @classmethod
    def load(cls, file: Path) -> Self:
        """The key in a PEM file (PKCS #8, Ed25519). Raises `AdminKeyError`."""
        make = "make one with: openssl genpkey -algorithm ed25519 -out admin.pem"
        try:
            key = load_pem_private_key(file.read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise AdminKeyError(f"cannot read the admin key {file}: {error}; {make}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise AdminKeyError(f"the admin key {file} is not an Ed25519 key; {make}")
        return cls(key)

    def public_keys(self) -> str:
        """The JSON text of `admin-keys.json`, from which engines verify."""
        document = {"keys": [{"kid": self.key_id, "pem": self.public_pem}]}
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()

    def token(self, *, pod_uid: str, method: str, path: str, body: bytes, now_s: float) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
        claims = {
            "aud": pod_uid,
            "iat": int(now_s),
            "exp": int(now_s) + TOKEN_LIFETIME_S,
            "jti": secrets.token_hex(16),
            "htm": method,
            "htu": path,
            "bh": digest,
        }
        return jwt.encode(claims, self._key, algorithm="EdDSA", headers={"kid": self.key_id})


@dataclass(frozen=True, slots=True)
class AdminTarget:
    pod_uid: str
    ip: str
    port: int


@dataclass(frozen=True, slots=True)
class Answer:
    document: Mapping[str, Any]
    etag: str | None


class AdminClient:
    """`wall_clock` is Unix seconds: what a token's times are in."""

    def __init__(
        self,
        *,
        signer: Signer,
        wall_clock: Callable[[], float],
        timeout_s: float = TIMEOUT_S,
        max_reply_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        self._signer = signer
        self._max_reply_bytes = max_reply_bytes
        self._wall_clock = wall_clock
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            connector=aiohttp.TCPConnector(limit=32, force_close=True),
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def aclose(self) -> None:
        await self._session.close()

    async def limits(self, target: AdminTarget) -> Answer:
        return await self._call(target, "GET", LIMITS_PATH)

    async def set_limits(
        self,
        target: AdminTarget,
        limits: Mapping[str, int],
        *,
        tenants: Contract | None = None,
        policy: PolicyName | None = None,
    ) -> Answer:
        """Change limits, tenants' terms and the policy in one step of the engine, or raise and change none.
        Raises `AdminError`.
        """
        current = await self.limits(target)
        if current.etag is None:
            raise AdminError("the engine told no revision of its limits")
        terms: dict[str, Any] = {} if policy is None else {"scheduling_policy": policy}
        if tenants is not None:
            terms["tenants"] = change_of_terms(current.document.get("tenants"), tenants)
        return await self._call(target, "PATCH", LIMITS_PATH, body={**limits, **terms}, if_match=current.etag)

    async def drain(self, target: AdminTarget, *, timeout_s: float) -> Answer:
        """Stop admission; what is in flight ends by itself. Repeating it is harmless. Raises `AdminError`."""
        return await self._call(target, "POST", DRAIN_PATH, body={"timeout_s": timeout_s})

    async def telemetry(self, target: AdminTarget, *, since: str | None, limit: int) -> Answer:
        """Records of steps and requests, at most `limit` of each, after the cursor `since` of an earlier
        answer; without one from the oldest kept. Raises `AdminError`.
        """
        query = f"limit={limit}" if since is None else f"limit={limit}&since={since}"
        return await self._call(target, "GET", f"{TELEMETRY_PATH}?{query}")

    async def _call(
        self,
        target: AdminTarget,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        if_match: str | None = None,
    ) -> Answer:
        payload = b"" if body is None else orjson.dumps(body)
        token = self._signer.token(
            pod_uid=target.pod_uid, method=method, path=path, body=payload, now_s=self._wall_clock()
        )
        headers = {"Authorization": f"Bearer {token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if if_match is not None:
            headers["If-Match"] = if_match
        url = URL.build(scheme="http", host=target.ip, port=target.port).join(URL(path, encoded=True))
        try:
            async with self._session.request(
                method, url, data=payload or None, headers=headers, allow_redirects=False
            ) as response:
                reply = await read_bounded(response, max_bytes=self._max_reply_bytes)
                return _answer(f"{method} {path}", response.status, reply, response.headers.get("ETag"))
        except TimeoutError as error:
            raise AdminError(f"{method} {path}: no answer in time") from error
        except (aiohttp.ClientError, BodyTooLargeError, OSError) as error:
            raise AdminError(f"{method} {path}: {type(error).__name__}: {error}"[:200]) from error


def _answer(call: str, status: int, reply: bytes, etag: str | None) -> Answer:
    if not 200 <= status < 300:
        raise AdminError(f"{call}: status {status}: {reply[:200].decode('utf-8', 'replace')}", status=status)
    try:
        document = orjson.loads(reply)
    except orjson.JSONDecodeError as error:
        raise AdminError(f"{call}: the answer is not JSON", status=status) from error
    if not isinstance(document, dict):
        raise AdminError(f"{call}: the answer is not an object", status=status)
    return Answer(document, etag)
