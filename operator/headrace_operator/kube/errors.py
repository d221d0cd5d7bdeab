"""What a call to the API server can end in, told apart once, at the edge.

`KubeError` is an answer that the server gave; `KubeUnreachableError` is the lack of one (refused, reset,
timed out).
"""

from collections.abc import Mapping
from typing import Any

import orjson


class KubeUnreachableError(Exception):
    """No answer: whether the server did the work is unknown, so only idempotent calls are repeated."""


class KubeError(Exception):
    """An answer other than 2xx.

    `status` is the HTTP code, `reason` the server's CamelCase reason ("Conflict", "NotFound", ...),
    `retry_after_s` what it asked to wait, where it did.
    """

    def __init__(self, status: int, reason: str, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def is_not_found(self) -> bool:
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        return self.status == 409

    @property
    def is_forbidden(self) -> bool:
        return self.status in (401, 403)

    @property
    def is_invalid(self) -> bool:
        return self.status in (400, 422)

    @property
    def is_refused(self) -> bool:
        """True where the server understood the call and will not do it, until somebody changes something."""
        return (self.status == 403 or self.is_invalid) and not self.is_namespace_ending

    @property
    def is_namespace_ending(self) -> bool:
        """True where the namespace is being deleted: nothing is to be created there any more."""
        return self.status == 403 and "being terminated" in self.message


def error_from(status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """The error that a non-2xx answer stands for; a body that is no `Status` is quoted, cut short."""
    try:
        document: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        document = {"message": body[:200].decode("utf-8", "replace").strip()}
    return KubeError(
        status,
        str(document.get("reason") or "Unknown"),
        str(document.get("message") or "no message")[:2000],
        retry_after_s=_retry_after_s(headers.get("Retry-After"), document.get("details")),
    )


def _retry_after_s(header: str | None, details: Any) -> float | None:
    seconds = (
        header
        if header is not None
        else details.get("retryAfterSeconds")
        if isinstance(details, dict)
        else None
    )
    try:
        return max(0.0, float(seconds)) if seconds is not None else None
    except (TypeError, ValueError):
        return None
