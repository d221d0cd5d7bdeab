"""Speculation's seam: someone guesses the next tokens of a sequence, the next step checks the guesses."""

from collections.abc import Sequence
from typing import Protocol

from headrace_engine.core.request import Request


class Drafter(Protocol):
    """Guesses what follows."""

    def draft(self, request: Request, most_tokens: int) -> Sequence[int]:
        """Up to `most_tokens` ids that may follow the request's tokens; none if there is nothing to guess."""
        ...
