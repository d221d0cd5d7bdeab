"""What a JSON text holds, counted before anything is built from it: values, keys, nesting.

Takes time linear in the text and little memory, whatever the text: strings are left out window by window,
and it ends at the first bound that is passed. The text need not be valid; whoever parses it finds that.
"""

import re
from dataclasses import dataclass
from itertools import accumulate

from headrace_engine.server.errors import invalid

WINDOW_BYTES = 64 << 10
_WHOLE_STRINGS = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"]*+)*+', re.DOTALL)
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, or one that never ends. All is possessive, which keeps a search linear."""
_BRACKETS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
_LONG_NUMBER = re.compile(rb"\d{10}")
"""The longer half, at least, of a number beyond 64 bits that two windows share."""


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """Most bytes, nesting, values and keys of one body, and keys of one object in it."""

    max_bytes: int
    max_values: int = 262_144
    max_depth: int = 64
    max_keys: int = 65_536
    max_keys_of_object: int = 4096

    @classmethod
    def of(cls, max_model_len: int) -> "BodyBounds":
        """Room for a full context as text or as token ids, and no more."""
        return cls(min(8 << 20, (64 << 10) + 128 * max_model_len), max_values=65_536 + 4 * max_model_len)


class Shape:
    """Counts what stands between the strings."""

    def __init__(self, bounds: BodyBounds) -> None:
        self._bounds = bounds
        self._num_values = 0
        self._num_keys = 0
        self._depth = 0
        self.has_long_numbers = False

    @classmethod
    def of(cls, text: bytes | bytearray, bounds: BodyBounds) -> "Shape":
        """Raises `ApiError` (400) for a text out of bounds."""
        shape, at = cls(bounds), 0
        while at < len(text):
            window = bytes(text[at : at + WINDOW_BYTES])
            strings = _WHOLE_STRINGS.match(window)
            assert strings is not None
            shape._count(_STRING.sub(b"", window[: strings.end()]))
            at += strings.end()
            if strings.end() < len(window) and (cut := _STRING.match(text, at)):
                at = cut.end()
        return shape

    def _count(self, structure: bytes) -> None:
        bounds, brackets = self._bounds, structure.translate(None, _NOT_BRACKETS)
        self._num_values += structure.count(b",") + len(brackets)
        if self._num_values > bounds.max_values:
            raise invalid(None, f"The body holds more than {bounds.max_values} values.")
        self._num_keys += structure.count(b":")
        if self._num_keys > bounds.max_keys:
            raise invalid(None, f"The body holds more than {bounds.max_keys} keys.")
        depths = list(accumulate(map(_BRACKETS.__getitem__, brackets), initial=self._depth))
        if max(depths) > bounds.max_depth:
            raise invalid(None, f"The body is nested deeper than {bounds.max_depth} levels.")
        self._depth = depths[-1]
        self.has_long_numbers = self.has_long_numbers or _LONG_NUMBER.search(structure) is not None
