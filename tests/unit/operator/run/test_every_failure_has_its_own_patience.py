"""`retry_after` as a table."""

import pytest

from headrace_operator.kube.errors import KubeError, KubeUnreachableError, error_from
from headrace_operator.kube.leadership import NotLeadingError
from headrace_operator.run.act import NameConflictError
from headrace_operator.run.retry import CEILING_S, FORBIDDEN_S, Retry, retry_after

MIDDLE = 0.5
"""The chance that adds no jitter."""


def kube(status: int, message: str = "", **more: float) -> KubeError:
    return KubeError(status, "Reason", message, **more)


@pytest.mark.parametrize(
    ("error", "failures", "expected"),
    [
        (NotLeadingError(), 9, Retry("NotLeading", 5.0)),
        (NameConflictError(), 0, Retry("NameConflict", 1.0)),
        (KubeUnreachableError("refused"), 0, Retry("Unreachable", 1.0)),
        (KubeUnreachableError("refused"), 3, Retry("Unreachable", 8.0)),
        (KubeUnreachableError("refused"), 1000, Retry("Unreachable", CEILING_S)),
        (TimeoutError(), 1, Retry("Unreachable", 2.0)),
        (kube(409), 0, Retry("Conflict", 0.1)),
        (kube(409), 1, Retry("Conflict", 2.0)),
        (kube(403), 0, Retry("Forbidden", FORBIDDEN_S)),
        (kube(401), 0, Retry("Unauthorized", 1.0)),
        (kube(403, "namespace x is being terminated"), 0, Retry("NamespaceEnding", FORBIDDEN_S)),
        (kube(422), 2, Retry("Invalid", 4.0)),
        (kube(429, retry_after_s=30.0), 0, Retry("ServerError", 30.0)),
        (kube(429, retry_after_s=1.0), 4, Retry("ServerError", 16.0)),
        (kube(500), 0, Retry("ServerError", 1.0)),
        (kube(404), 0, Retry("NotFound", 1.0)),
        (ZeroDivisionError(), 0, Retry("Bug", 1.0, is_bug=True)),
    ],
)
def test_retry(error: Exception, failures: int, expected: Retry):
    assert retry_after(error, failures=failures, chance=MIDDLE) == expected


def test_delays_are_spread():
    delays = [retry_after(kube(500), failures=3, chance=chance).delay_s for chance in (0.0, 0.5, 0.999)]
    assert delays == [pytest.approx(6.4), pytest.approx(8.0), pytest.approx(9.6, abs=0.01)]


@pytest.mark.parametrize(
    ("headers", "body", "reason", "message", "retry_after_s"),
    [
        ({}, b'{"reason": "Conflict", "message": "changed"}', "Conflict", "changed", None),
        ({"Retry-After": "7"}, b"{}", "Unknown", "no message", 7.0),
        ({}, b'{"details": {"retryAfterSeconds": 3}}', "Unknown", "no message", 3.0),
        ({"Retry-After": "Wed, 21 Oct 2015"}, b"not json\n", "Unknown", "not json", None),
        ({}, b"[1]", "Unknown", "[1]", None),
        ({}, b'{"details": []}', "Unknown", "no message", None),
    ],
)
def test_an_answer_becomes_an_error(headers, body, reason, message, retry_after_s):
    error = error_from(503, headers, body)
    assert (error.status, error.reason, error.message, error.retry_after_s) == (
        503,
        reason,
        message,
        retry_after_s,
    )
