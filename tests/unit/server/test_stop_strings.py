"""The search for stop strings: equal to the plain definition, however the text is cut up."""

import time

from hypothesis import given
from hypothesis import strategies as st

from headrace_engine.server.stop_strings import StopStrings

letters = st.text(alphabet="ab", max_size=12)
stops = st.lists(st.text(alphabet="ab", min_size=1, max_size=4), min_size=1, max_size=4)


def plainly(text: str, strings: list[str]) -> tuple[str, str | None]:
    """Grow the text by a character until it ends with a stop string; of several, the longest."""
    for end in range(1, len(text) + 1):
        ending = [string for string in strings if text[:end].endswith(string)]
        if ending:
            longest = max(ending, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(pieces=st.lists(letters, max_size=6), strings=stops)
def test_it_finds_what_the_definition_finds(pieces, strings) -> None:
    search = StopStrings(strings)
    shown = ""
    for piece in pieces:
        shown += search.push(piece)
        if search.matched:
            break
    if not search.matched:
        shown += search.flush()
    assert (shown, search.matched) == plainly("".join(pieces), strings)


@given(text=letters, strings=stops)
def test_it_holds_back_only_what_could_begin_a_stop_string(text, strings) -> None:
    search = StopStrings(strings)
    shown = search.push(text)
    if search.matched is None:
        held = text[len(shown) :]
        beginnings = {string[:length] for string in strings for length in range(len(string))}
        longest = max((end for end in beginnings if text.endswith(end)), key=len)
        assert held == longest


def test_the_worst_strings_cost_microseconds_a_token() -> None:
    search = StopStrings(["a" * 255 + letter for letter in "bcde"])
    began = time.process_time()
    for _ in range(2000):
        search.push("aaaa")
    assert (time.process_time() - began) / 2000 < 100e-6
