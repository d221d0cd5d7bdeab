"""What a client is told when a request fails: one typed error, in OpenAI's shape, with the status that
fits.
"""

import math
from dataclasses import dataclass
from typing import Any

LONGEST_MESSAGE = 400


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """OpenAI's error object."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None

    def document(self) -> dict[str, Any]:
        message = (
            self.message if len(self.message) <= LONGEST_MESSAGE else self.message[:LONGEST_MESSAGE] + "..."
        )
        return {"error": {"message": message, "type": self.type, "param": self.param, "code": self.code}}


class ApiError(Exception):
    """A request that ends with `status` and `body`.

    `reason` names the limit behind a refusal (`x-headrace-reason`); `retry_after_s` becomes `Retry-After`.
    """

    def __init__(
        self, status: int, body: ErrorBody, *, reason: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(body.message)
        self.status = status
        self.body = body
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.allowances: dict[str, str] = {}
        """Headers that tell what is left of the caller's rates."""

    def headers(self) -> dict[str, str]:
        headers = dict(self.allowances)
        if self.reason is not None:
            headers["x-headrace-reason"] = self.reason
        if self.retry_after_s is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after_s)))
            # OpenAI's clients go by this one first. Whole seconds would bring all of them back together.
            headers["retry-after-ms"] = str(max(1, math.ceil(1000 * self.retry_after_s)))
        return headers


def invalid(param: str | None, message: str, *, code: str | None = None, status: int = 400) -> ApiError:
    """The client's mistake, with the parameter that it is about."""
    return ApiError(status, ErrorBody(message, "invalid_request_error", param, code))


def too_long(param: str, message: str) -> ApiError:
    return invalid(param, message, code="context_length_exceeded")


def overloaded(reason: str, message: str, retry_after_s: float) -> ApiError:
    """429: the same request will do later."""
    body = ErrorBody(message, "rate_limit_error", None, reason)
    return ApiError(429, body, reason=reason, retry_after_s=retry_after_s)


def unavailable(reason: str, message: str, retry_after_s: float = 1.0) -> ApiError:
    """503: another replica, or this one a moment later."""
    body = ErrorBody(message, "service_unavailable_error", None, reason)
    return ApiError(503, body, reason=reason, retry_after_s=retry_after_s)


def failed(message: str) -> ApiError:
    """500. The message is constant text: an exception's own words may hold what no client may see."""
    return ApiError(500, ErrorBody(message, "server_error", None, "internal_error"))
