"""Keeps text from outside from becoming control tokens, whatever a chat template does with it.

Before rendering, every control string inside a message (`<|im_end|>`, say) gives way to a random word; what a
template may then trim, test or join holds no control string of the user's. After rendering, control strings
are the template's own, and the words are turned back into plain text.
"""

import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any


class Shield:
    """The words and what they stand for, for one rendering."""

    def __init__(self, control: Iterable[str]) -> None:
        strings = sorted((string for string in control if string), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, strings)) or r"(?!)")
        # A text that ends with half a control string might be completed by the text after it.
        self._beginnings = frozenset(string[:end] for string in strings for end in range(1, len(string)))
        self._longest = max(map(len, strings), default=0)
        self._nonce = f"x{secrets.token_hex(12)}n"
        self._covered: list[str] = []

    @property
    def end_mark(self) -> str:
        """A word that nobody else can write, and a space."""
        return f"{self._nonce}end "

    @property
    def is_used(self) -> bool:
        """Whether anything had to be covered. Almost never."""
        return bool(self._covered)

    def cover(self, value: Any) -> Any:
        """The same value with every control string in every string of it replaced."""
        if isinstance(value, str):
            return self._cover_text(value)
        if isinstance(value, Mapping):
            return {self.cover(key): self.cover(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.cover(entry) for entry in value]
        return value

    def split(self, rendered: str) -> list[tuple[str, bool]]:
        """The rendered text in pieces, with whether each is a control string of the template."""
        pieces, at = [], 0
        for match in self._control.finditer(rendered):
            pieces.append((self._uncover(rendered[at : match.start()]), False))
            pieces.append((match.group(), True))
            at = match.end()
        pieces.append((self._uncover(rendered[at:]), False))
        return [piece for piece in pieces if piece[0]]

    def _cover_text(self, text: str) -> str:
        text = self._control.sub(lambda match: self._word(match.group()), text)
        for length in range(min(self._longest, len(text)), 0, -1):
            if text[-length:] in self._beginnings:
                return text[:-length] + self._word(text[-length:])
        return text

    def _word(self, text: str) -> str:
        self._covered.append(text)
        return f"{self._nonce}{len(self._covered) - 1}x"

    def _uncover(self, text: str) -> str:
        return re.sub(f"{self._nonce}(\\d+)x", lambda match: self._covered[int(match.group(1))], text)
