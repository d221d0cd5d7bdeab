"""Who may use the admin port: the holder of a signing key, or of the token file's content.

Both files are read at each call, so a rotation needs no restart. A browser never may: any `Origin` or
`Sec-Fetch-*` header refuses the call, whatever else it brings. Who is refused is written down, and cannot
fill a disk by it.
"""

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable

from starlette.requests import Request

from headrace_engine.server.admin_credentials import AdminCredentials
from headrace_engine.server.errors import invalid
from headrace_engine.server.signed_call import Call, CallRejected, Nonces, load_keys, verify

audit = logging.getLogger("headrace.audit")

MOST_REFUSALS_LOGGED = 10
REFUSALS_PERIOD_S = 60.0


class Refusals:
    """Writes down refused calls: so many in a period, and then how many more there were."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since_s = -REFUSALS_PERIOD_S
        self._num = 0

    def tell(self, reason: str, path: str) -> None:
        now_s = self._clock()
        if now_s - self._since_s >= REFUSALS_PERIOD_S:
            if self._num > MOST_REFUSALS_LOGGED:
                left_out = self._num - MOST_REFUSALS_LOGGED
                audit.warning("more admin calls were refused than written down", extra={"number": left_out})
            self._since_s, self._num = now_s, 0
        self._num += 1
        if self._num <= MOST_REFUSALS_LOGGED:
            audit.warning("admin call refused", extra={"reason": reason, "path": path[:200]})


class AdminAuth:
    def __init__(self, credentials: AdminCredentials) -> None:
        self._credentials = credentials
        self._nonces = Nonces()
        self._refusals = Refusals()

    def caller(self, request: Request, body: bytes | bytearray) -> str:
        """Who calls, for the audit line.

        Raises:
            ApiError: 401, the same whatever the reason.
        """
        try:
            return self._caller(request, body)
        except (CallRejected, ValueError, OSError, KeyError) as error:
            self._refusals.tell(str(error), request.url.path)
            raise invalid(None, "This call is not authorized.", code="unauthorized", status=401) from None

    def _caller(self, request: Request, body: bytes | bytearray) -> str:
        if any(name == "origin" or name.startswith("sec-fetch-") for name in request.headers):
            raise CallRejected("sent by a browser")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise CallRejected("no bearer token")
        if self._is_token_of_file(token):
            return "token-file"
        return f"key-{self._signer(token, request, body)}"

    def _is_token_of_file(self, token: str) -> bool:
        expected = self._credentials.token()
        if expected is None:
            return False
        digests = (hashlib.sha256(text.encode()).digest() for text in (token, expected))
        return hmac.compare_digest(*digests)

    def _signer(self, token: str, request: Request, body: bytes | bytearray) -> str:
        credentials = self._credentials
        if credentials.public_keys is None or credentials.pod_uid is None:
            raise CallRejected("no public keys are configured")
        query = request.scope["query_string"].decode("latin-1")
        path = request.scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        return verify(
            token,
            Call(request.method, path, bytes(body)),
            keys=load_keys(json.loads(credentials.public_keys.read_text())),
            audience=credentials.pod_uid,
            nonces=self._nonces,
            now_s=time.time(),
        )
