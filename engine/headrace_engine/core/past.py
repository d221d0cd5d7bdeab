"""The tokens of a request so far, for whoever chooses the next by what was said before."""

from array import array
from collections.abc import Iterable, Sequence


class Past:
    """Prompt and output in one buffer, which grows by commit; nobody converts it again at every step."""

    __slots__ = ("ids", "num_prompt_tokens")

    def __init__(self, prompt_token_ids: Sequence[int]) -> None:
        self.ids = array("q", prompt_token_ids)
        """Read it during a step and keep no view of it: a buffer that is looked at cannot grow."""
        self.num_prompt_tokens = len(prompt_token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.ids) - self.num_prompt_tokens

    def extend(self, token_ids: Iterable[int]) -> None:
        """New output."""
        self.ids.extend(token_ids)
