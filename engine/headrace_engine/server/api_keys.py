"""Who a client is: its API key, by digest, names a tenant. Without a keys file everybody is one.

    {"keys": {"<sha256 of a key, hex>": "acme"},
     "tenants": {"default": {...}, "items": {"acme": {"weight": 2, "max_num_queued_reqs": 100}}}}

With `"keys": null` nobody needs one, and everybody is one tenant. The file is read again when it has changed;
one that cannot be used is logged, and the last good one holds. What a client writes into a request (`user`)
is never its identity.
"""

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace_engine.core.contract import Contract
from headrace_engine.server.errors import ApiError, ErrorBody, overloaded
from headrace_engine.server.json_body import parse_object
from headrace_engine.server.json_shape import BodyBounds

log = logging.getLogger(__name__)

MAX_KEYS = 10_000
MAX_FILE_BYTES = 4 << 20
FILE_BOUNDS = BodyBounds(MAX_FILE_BYTES, max_depth=8, max_keys_of_object=2 * MAX_KEYS)
MAX_FAILURES_PER_S = 10
"""From one address; then it is told to wait."""
MAX_AUTHORIZATION_CHARACTERS = 512
"""No key is longer: what is, is refused without being looked at."""
_TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Tenancy:
    """What a keys file says."""

    tenants: dict[bytes, str] | None
    """By the digest of a key. None: nobody needs one, and everybody is one tenant."""
    contract: Contract

    @classmethod
    def read(cls, path: Path) -> "Tenancy":
        """Raises `ValueError` or `OSError` for a file that cannot be used."""
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
        document = _parsed(path.read_bytes())
        if not {"keys"} <= document.keys() <= {"keys", "tenants"}:
            raise ValueError('it is no object with "keys" and "tenants"')
        keys = document["keys"]
        if not isinstance(keys, dict | None):
            raise ValueError('"keys" is neither an object nor null')  # noqa: TRY004 - the file's content
        contract = Contract().changed(document.get("tenants", {}))
        if keys is None:
            return cls(None, contract)
        if len(keys) > MAX_KEYS:
            raise ValueError(f"it has more than {MAX_KEYS} keys")
        for number, (digest, tenant) in enumerate(keys.items(), start=1):
            if not _DIGEST.fullmatch(digest):
                raise ValueError(f"key {number} is no SHA-256 digest in lower-case hex")
            if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
                raise ValueError(f"key {number} names no tenant, of 1 to 64 letters, digits, dots and dashes")
        tenants = {bytes.fromhex(digest): tenant for digest, tenant in keys.items()}
        return cls(tenants, contract)


class ApiKeys:
    """Lives on the event loop."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._version = _version(path)
        self._salt_key = secrets.token_bytes(32)
        self._failures: Counter[str] = Counter()
        self._second = 0
        self.tenancy = Tenancy.read(path)

    def refresh(self) -> bool:
        """Read the file again if it has changed; whether the terms in it have."""
        version, before = _version(self._path), self.tenancy.contract
        if version == self._version:
            return False
        self._version = version
        try:
            self.tenancy = Tenancy.read(self._path)
        except (OSError, ValueError) as error:
            log.error("the keys file cannot be used; the last good one holds", extra={"reason": str(error)})  # noqa: TRY400
        return self.tenancy.contract != before

    def tenant(self, authorization: str, address: str) -> str:
        """Whose key this is; the empty name where nobody needs one.

        Raises:
            ApiError: 401, the same whatever is wrong with it; 429 after too many of them.
        """
        if self.tenancy.tenants is None:
            return ""
        found = _find(self.tenancy.tenants, authorization)
        if found is not None:
            return found
        if int(self._clock()) != self._second:
            self._second = int(self._clock())
            self._failures.clear()
        self._failures[address] += 1
        if self._failures[address] > MAX_FAILURES_PER_S:
            raise overloaded("too_many_failures", "Too many calls with a wrong API key.", 1.0)
        message = "This API key is not valid. Send it as Authorization: Bearer KEY."
        raise ApiError(401, ErrorBody(message, "invalid_request_error", None, "invalid_api_key"))

    def salt(self, tenant: str) -> bytes:
        """What keeps a tenant's cached blocks from being found by others: nobody outside can name it."""
        return hmac.digest(self._salt_key, tenant.encode(), "sha256")


def _parsed(text: bytes) -> dict[str, Any]:
    """As strictly as what clients send: a key of two tenants, say, is nobody's wish."""
    try:
        return parse_object(text, FILE_BOUNDS)
    except ApiError as error:
        raise ValueError(f"as JSON: {error.body.message}") from None


def _find(tenants: dict[bytes, str], authorization: str) -> str | None:
    """What is looked up is a digest: the time that takes tells nothing of how near a key was, since
    nobody can choose one whose digest is near another's.
    """
    if len(authorization) > MAX_AUTHORIZATION_CHARACTERS:
        return None
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return None
    return tenants.get(hashlib.sha256(key.strip().encode()).digest())


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
