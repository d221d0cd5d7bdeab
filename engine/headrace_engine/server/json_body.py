"""A request body from bytes to a JSON object, strictly.

UTF-8 only, no duplicate keys, no NaN or infinity (nor a number that overflows to one), no lone surrogates,
bounded depth and number of values. All of it is checked before anything is built from the body, in time
linear in its size.
"""

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from headrace_engine.server.errors import invalid

INT64 = range(-(2**63), 2**63)
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, or one that never ends: that every start matches, possessively, is what keeps the search
linear.
"""
_BRACKETS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
_LONG_NUMBER = re.compile(rb"\d{19}")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """Most bytes, nesting and values of one body."""

    max_bytes: int
    max_values: int = 262_144
    max_depth: int = 64

    @classmethod
    def of(cls, max_model_len: int) -> "BodyBounds":
        """Room for a full context as text or as token ids, and no more."""
        return cls(min(8 << 20, (64 << 10) + 128 * max_model_len), max_values=65_536 + 4 * max_model_len)


def parse_object(body: bytes, bounds: BodyBounds) -> dict[str, Any]:
    """The JSON object in `body`.

    Raises:
        ApiError: 400, with the top-level key at fault as `param` where there is one.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid(None, "The body is not valid UTF-8.") from None
    structure = _STRINGS.sub(b"", body)
    _check_shape(structure, bounds)
    parser = _StrictParser(checks_integers=_LONG_NUMBER.search(structure) is not None)
    try:
        document = parser.decode(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise invalid(None, f"The body is not valid JSON: {error.msg} at {place}.") from None
    if not isinstance(document, dict):
        raise invalid(None, "The body must be a JSON object.")
    if parser.suspicious or "\\u" in text:
        _check_values(document)
    return document


def _check_shape(structure: bytes, bounds: BodyBounds) -> None:
    brackets = structure.translate(None, _NOT_BRACKETS)
    if structure.count(b",") + len(brackets) > bounds.max_values:
        raise invalid(None, f"The body holds more than {bounds.max_values} values.")
    if max(accumulate(map(_BRACKETS.__getitem__, brackets)), default=0) > bounds.max_depth:
        raise invalid(None, f"The body is nested deeper than {bounds.max_depth} levels.")


class _StrictParser:
    """Python's own JSON parser with the gaps closed. A bad number is kept as NaN until its key can be
    named.
    """

    def __init__(self, *, checks_integers: bool) -> None:
        self.suspicious = False
        self._decoder = json.JSONDecoder(
            object_pairs_hook=_unique,
            parse_constant=self._not_a_number,
            parse_float=self._finite,
            parse_int=self._bounded if checks_integers else None,
        )

    def decode(self, text: str) -> Any:
        return self._decoder.decode(text)

    def _not_a_number(self, _literal: str) -> float:
        self.suspicious = True
        return math.nan

    def _finite(self, literal: str) -> float:
        value = float(literal)
        return value if math.isfinite(value) else self._not_a_number(literal)

    def _bounded(self, literal: str) -> float | int:
        if len(literal) > 20 or (value := int(literal)) not in INT64:
            return self._not_a_number(literal)
        return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise invalid(twice[:64], "The key appears twice in one object.")
    return result


def _check_values(document: dict[str, Any]) -> None:
    for name, value in document.items():
        if _SURROGATE.search(name):
            raise invalid(None, "A key holds a lone surrogate, which is no character.")
        fault = _fault(value)
        if fault:
            raise invalid(name, f"{name}: {fault}")


def _fault(value: Any) -> str | None:
    if isinstance(value, str):
        return "holds a lone surrogate, which is no character." if _SURROGATE.search(value) else None
    if isinstance(value, float):
        return None if math.isfinite(value) else "takes finite numbers of at most 64 bits."
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return next((fault for item in value if (fault := _fault(item))), None)
    return None
