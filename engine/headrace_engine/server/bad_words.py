"""Words that an output must not contain, as the ids that write them."""

from collections.abc import Callable, Sequence

from headrace_engine.server.errors import invalid


def bad_word_ids(encode: Callable[[str], list[int]], words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The id sequences that write these words, at the beginning of a text and after a space.

    `encode` adds no special tokens. Which sequences those are is vLLM's rule.

    Raises:
        ApiError: 400, for a word that nothing writes; a ban that bans nothing would be ignored.
    """
    spelled: dict[tuple[int, ...], None] = {}
    for word in words:
        bare, spaced = tuple(encode(word.lstrip(" "))), tuple(encode(" " + word.lstrip(" ")))
        if not bare:
            raise invalid("bad_words", "bad_words: one of the words is nothing but spaces, which is no word.")
        spelled[bare] = None
        # Where the space is a token of its own, the second sequence says no more than the first.
        if len(spaced) == len(bare) and spaced[:1] != bare[:1]:
            spelled[spaced] = None
    return tuple(spelled)
