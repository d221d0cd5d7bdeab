"""Words that an output must not contain, as the ids that write them."""

from collections.abc import Callable, Sequence


def bad_word_ids(encode: Callable[[str], list[int]], words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The id sequences that write these words, at the beginning of a text and after a space.

    `encode` adds no special tokens. Which sequences those are is vLLM's rule.
    """
    spelled: dict[tuple[int, ...], None] = {}
    for word in words:
        bare, spaced = tuple(encode(word.lstrip(" "))), tuple(encode(" " + word.lstrip(" ")))
        spelled[bare] = None
        # Where the space is a token of its own, the second sequence says no more than the first.
        if len(spaced) == len(bare) and spaced[:1] != bare[:1]:
            spelled[spaced] = None
    spelled.pop((), None)
    return tuple(spelled)
