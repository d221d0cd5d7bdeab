"""Short prompts first, with age: `shortest`.

A prompt stands as if it had come `token_s` later for each of its tokens: nobody waits behind a shorter prompt
that came more than that difference after it.
"""

from headrace_engine.core.policy import Ranked
from headrace_engine.core.request import Request


class ShortestFirst(Ranked):
    """By arrival, put off by the length of the prompt."""

    def __init__(self, token_s: float = 0.001) -> None:
        super().__init__()
        self._token_s = token_s

    def rank(self, request: Request) -> float:
        return request.arrival_s + len(request.prompt_token_ids) * self._token_s
