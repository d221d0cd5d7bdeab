"""The outputs of one prompt, which are engine requests, counted together: to vLLM they are one request."""

from dataclasses import dataclass

from headrace_engine.core.request import Request


@dataclass(slots=True)
class PromptOutputs:
    """All outputs of one prompt, so far."""

    num_outputs: int = 0
    num_open: int = 0
    longest_tokens: int = 0
    is_answered: bool = False
    """Whether any came to its end."""


class Outputs:
    """Of prompts that have outputs which have not ended, by the request that leads them."""

    def __init__(self) -> None:
        self._open: dict[str, PromptOutputs] = {}

    def began(self, request: Request) -> None:
        prompt = self._open.setdefault(request.leader or request.request_id, PromptOutputs())
        prompt.num_outputs += 1
        prompt.num_open += 1

    def ended(self, request: Request, num_tokens: int, *, is_answered: bool) -> PromptOutputs | None:
        """The last of a prompt's outputs brings them all, if one of them was an answer."""
        name = request.leader or request.request_id
        prompt = self._open[name]
        prompt.num_open -= 1
        prompt.longest_tokens = max(prompt.longest_tokens, num_tokens)
        prompt.is_answered |= is_answered
        if prompt.num_open:
            return None
        del self._open[name]
        return prompt if prompt.is_answered else None
