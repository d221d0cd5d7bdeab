"""Finds stop strings in text that arrives in pieces, and holds back no more than has to be.

Each string is followed by its own automaton (Knuth, Morris, Pratt 1977): the state after a character is the
length of the longest suffix of the text that begins the string. The longest state is what must be held
back; a full one is a match. So the cost is O(1) a character and string, and the result does not depend on
how the text was cut up.
"""

from collections.abc import Sequence


class StopStrings:
    """Searches one output. `push` pieces until `matched` is set; `flush` gives what was held back."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._automata = [_Automaton(string) for string in strings]
        self._held = ""
        self.matched: str | None = None

    def push(self, piece: str) -> str:
        """The text that is now safe to show: never a part of a stop string."""
        if not self._automata:
            return piece
        text = self._held + piece
        for end in range(len(self._held) + 1, len(text) + 1):
            character = text[end - 1]
            full = [automaton for automaton in self._automata if automaton.step(character)]
            if full:
                self.matched = max((automaton.string for automaton in full), key=len)
                self._held = ""
                return text[: end - len(self.matched)]
        safe = len(text) - max(automaton.state for automaton in self._automata)
        self._held = text[safe:]
        return text[:safe]

    def flush(self) -> str:
        """The output has ended without a match."""
        held, self._held = self._held, ""
        return held


class _Automaton:
    def __init__(self, string: str) -> None:
        self.string = string
        self.state = 0
        self._borders = _borders(string)

    def step(self, character: str) -> bool:
        """Follows one character; True when the whole string has just been read."""
        while self.state and self.string[self.state] != character:
            self.state = self._borders[self.state - 1]
        if self.string[self.state] == character:
            self.state += 1
        return self.state == len(self.string)


def _borders(string: str) -> list[int]:
    """For each prefix, the length of its longest proper suffix that is a prefix too."""
    borders = [0] * len(string)
    length = 0
    for index in range(1, len(string)):
        while length and string[index] != string[length]:
            length = borders[length - 1]
        if string[index] == string[length]:
            length += 1
        borders[index] = length
    return borders
