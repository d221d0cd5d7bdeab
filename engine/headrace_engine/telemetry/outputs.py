"""The outputs of one prompt, which are engine requests, counted together: to vLLM they are one request."""

from dataclasses import dataclass

from headrace_engine.core.request import Request


@dataclass(slots=True)
class Together:
    """All outputs of one prompt."""

    num_outputs: int = 0
    num_open: int = 0
    longest_tokens: int = 0
    is_answered: bool = False
    """Whether any came to its end."""


class Outputs:
    """Of prompts that have outputs which have not ended, by the request that leads them."""

    def __init__(self) -> None:
        self._open: dict[str, Together] = {}

    def began(self, request: Request) -> None:
        together = self._open.setdefault(request.leader or request.request_id, Together())
        together.num_outputs += 1
        together.num_open += 1

    def ended(self, request: Request, num_tokens: int, *, is_answered: bool) -> Together | None:
        """The last of a prompt's outputs brings them all, if one of them was an answer."""
        name = request.leader or request.request_id
        together = self._open[name]
        together.num_open -= 1
        together.longest_tokens = max(together.longest_tokens, num_tokens)
        together.is_answered |= is_answered
        if together.num_open:
            return None
        del self._open[name]
        return together if together.is_answered else None
