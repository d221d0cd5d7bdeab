"""Verifies signed admin calls: an EdDSA JWT that is good for one call, on one pod, for seconds.

    header  kid: first 16 hex digits of sha256(raw public key)
    claims  aud: pod uid   iat, exp: at most 30 s apart   jti: random, used once
            htm: method    htu: path with query           bh: base64url(sha256(body)), no padding

The engine holds public keys only, so nothing that it leaks lets anyone call another engine, or this one
twice.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

LONGEST_LIFE_S = 30.0
CLOCK_SKEW_S = 5.0
MAX_TOKEN_BYTES = 4096
_REQUIRED = ["aud", "iat", "exp", "jti", "htm", "htu", "bh"]


class CallRejected(Exception):  # noqa: N818 - the caller's fault
    """The call is not what a key's owner signed. The reason is for the log, never for the caller."""


@dataclass(frozen=True, slots=True)
class Call:
    """What arrived."""

    method: str
    path: str
    """With the query, as sent."""
    body: bytes


class Nonces:
    """The ids of calls that were accepted and could still be replayed. Only signed calls reach it, so it is
    small.
    """

    def __init__(self) -> None:
        self._expiry_s: dict[str, float] = {}

    def use(self, nonce: str, expires_s: float, now_s: float) -> bool:
        """False if this one was used before."""
        if nonce in self._expiry_s:
            return False
        self._expiry_s = {known: until_s for known, until_s in self._expiry_s.items() if until_s > now_s}
        self._expiry_s[nonce] = expires_s
        return True


class BadKeys(ValueError):  # noqa: N818 - reads as what it says
    """The public keys cannot be used; the message says why."""


def key_id(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


def load_keys(document: Any) -> dict[str, Ed25519PublicKey]:
    """The keys of `{"keys": [{"kid": ..., "pem": ...}]}`.

    Raises:
        BadKeys: the document has another shape, a key is not Ed25519, or a kid is not its key's.
    """
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise BadKeys('the public keys must be {"keys": [{"kid": ..., "pem": ...}]}')
    keys = [_public_key(entry) for entry in document["keys"]]
    return {key_id(key): key for key in keys}


def _public_key(entry: Any) -> Ed25519PublicKey:
    try:
        key, kid = load_pem_public_key(entry["pem"].encode()), entry["kid"]
    except (ValueError, KeyError, TypeError, AttributeError, UnsupportedAlgorithm) as error:
        raise BadKeys(f"a public key cannot be read: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise BadKeys(f"key {kid} is not an Ed25519 public key")
    if kid != key_id(key):
        raise BadKeys(f"kid {kid} is not the id of its key, which is {key_id(key)}")
    return key


def verify(
    token: str,
    call: Call,
    *,
    keys: Mapping[str, Ed25519PublicKey],
    audience: str,
    nonces: Nonces,
    now_s: float,
) -> str:
    """The id of the key that signed `call`; `now_s` is Unix time.

    Raises:
        CallRejected: for every reason there is.
    """
    claims, kid = _signed_claims(token, keys, audience)
    _check_times(claims, now_s)
    expected = {"htm": call.method, "htu": call.path, "bh": body_hash(call.body)}
    for name, value in expected.items():
        if not hmac.compare_digest(str(claims[name]).encode(), value.encode()):
            raise CallRejected(f"{name} is not that of this call")
    nonce = claims["jti"]
    if not isinstance(nonce, str) or not 16 <= len(nonce) <= 64:
        raise CallRejected("jti is not a random id")
    if not nonces.use(nonce, claims["exp"] + CLOCK_SKEW_S, now_s):
        raise CallRejected("jti was used before")
    return kid


def body_hash(body: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()


def _signed_claims(
    token: str, keys: Mapping[str, Ed25519PublicKey], audience: str
) -> tuple[dict[str, Any], str]:
    if len(token) > MAX_TOKEN_BYTES:
        raise CallRejected("the token is too long")
    try:
        kid = jwt.get_unverified_header(token).get("kid")
        if not isinstance(kid, str) or kid not in keys:
            raise CallRejected("no such key")
        # Times are checked by hand: against the caller's clock, and with a bound on the token's life.
        options: Any = {"require": _REQUIRED, "verify_exp": False, "verify_iat": False, "verify_nbf": False}
        claims = jwt.decode(token, keys[kid], algorithms=["EdDSA"], audience=audience, options=options)
    except jwt.InvalidTokenError as error:
        raise CallRejected(type(error).__name__) from None
    return claims, kid


def _check_times(claims: dict[str, Any], now_s: float) -> None:
    issued_s, expires_s = claims["iat"], claims["exp"]
    if not all(isinstance(value, int | float) for value in (issued_s, expires_s)):
        raise CallRejected("iat and exp are not times")
    if not 0 < expires_s - issued_s <= LONGEST_LIFE_S:
        raise CallRejected("the token lives too long")
    if now_s > expires_s + CLOCK_SKEW_S or now_s < issued_s - CLOCK_SKEW_S:
        raise CallRejected("the token is not valid now")
