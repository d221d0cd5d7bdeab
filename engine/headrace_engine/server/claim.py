"""What a request claims of the scheduler: for whom, and by when. From its key and its headers."""

import math
import re
from dataclasses import dataclass

from starlette.datastructures import Headers

from headrace_engine.server.errors import invalid

QUEUE_DEADLINE = "x-headrace-queue-deadline-ms"
FIRST_TOKEN_DEADLINES = ("x-slo-ttft-ms", "x-llm-d-slo-ttft-ms")
LONGEST_MS = 24 * 3600 * 1000.0
_NUMBER = re.compile(r"[0-9]{1,24}(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?")
"""As JSON writes it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Deadlines are seconds after the arrival; None is none."""

    tenant: str = ""
    block_salt: bytes = b""
    queue_deadline_s: float | None = None
    first_token_s: float | None = None
    priority: int = 0
    """The class of its requests that name none."""

    @classmethod
    def of(
        cls,
        headers: Headers,
        *,
        tenant: str,
        block_salt: bytes,
        queue_deadline_s: float | None,
        first_token_s: float | None,
        priority: int,
    ) -> "Claim":
        """The given deadlines are the server's own. A client shortens its time in the queue, and says when
        it wants its first token.

        Raises:
            ApiError: 400, for a header that is no time.
        """
        asked_s = _seconds(headers, QUEUE_DEADLINE)
        if asked_s is not None:
            queue_deadline_s = asked_s if queue_deadline_s is None else min(asked_s, queue_deadline_s)
        for name in FIRST_TOKEN_DEADLINES:
            if (wanted_s := _seconds(headers, name)) is not None:
                first_token_s = wanted_s
                break
        return cls(tenant, block_salt, queue_deadline_s, first_token_s, priority)


ANYBODY = Claim()


def _seconds(headers: Headers, name: str) -> float | None:
    texts = headers.getlist(name)
    if not texts:
        return None
    value_ms = float(texts[0]) if len(texts) == 1 and _NUMBER.fullmatch(texts[0]) else math.nan
    if not 0 < value_ms <= LONGEST_MS:
        raise invalid(name, f"{name} takes milliseconds, more than 0 and at most {LONGEST_MS:.0f}.")
    return value_ms / 1000
