"""The tokens of a request so far, for whoever chooses the next by what was said before."""

from array import array
from collections.abc import Iterable, MutableSequence
from dataclasses import dataclass


@dataclass(slots=True)
class Past:
    """Prompt and output in one buffer, which grows by commit; nobody converts it again at every step."""

    ids: MutableSequence[int]
    """An array of 64-bit integers. Keep no view of it beyond a step: a buffer that is looked at cannot grow.
    """
    num_prompt_tokens: int

    @classmethod
    def of(cls, prompt_token_ids: Iterable[int]) -> "Past":
        """What was said before the first token of output."""
        ids = array("q", prompt_token_ids)
        return cls(ids, len(ids))

    def extend(self, token_ids: Iterable[int]) -> None:
        """New output."""
        self.ids.extend(token_ids)
