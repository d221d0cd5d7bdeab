"""A request body from bytes to a JSON object, strictly.

UTF-8 only, no duplicate keys, no NaN or infinity (nor a number that overflows to one), no lone surrogates,
and no more of anything than `BodyBounds` allow, which is checked before anything is built from the body.
"""

import json
import math
import re
from collections import Counter
from typing import Any

from headrace_engine.server.errors import invalid
from headrace_engine.server.json_shape import BodyBounds, Shape

INT64 = range(-(2**63), 2**63)
MAX_WIDE_BYTES = 4 << 20
"""Of a body with a character beyond U+FFFF: each of its characters takes four bytes, in the text and in the
document.
"""
_BEYOND_FFFF = re.compile(rb"[\xf0-\xf7]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_object(body: bytes | bytearray, bounds: BodyBounds) -> dict[str, Any]:
    """The JSON object in `body`.

    Raises:
        ApiError: 400, with the top-level key at fault as `param` where there is one.
    """
    shape = Shape.of(body, bounds)
    text = _decoded(body)
    parser = _StrictParser(checks_integers=shape.has_long_numbers, max_keys=bounds.max_keys_of_object)
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


def _decoded(body: bytes | bytearray) -> str:
    if len(body) > MAX_WIDE_BYTES and _BEYOND_FFFF.search(body):
        most = f"A body with characters beyond U+FFFF has at most {MAX_WIDE_BYTES} bytes."
        raise invalid(None, f"{most} Send them as \\u escapes.", status=413)
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid(None, "The body is not valid UTF-8.") from None


class _StrictParser:
    """Python's own JSON parser with the gaps closed. A bad number is kept as NaN until its key can be
    named.
    """

    def __init__(self, *, checks_integers: bool, max_keys: int) -> None:
        self.suspicious = False
        self._max_keys = max_keys
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._unique,
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

    def _unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) > self._max_keys:
            raise invalid(None, f"An object in the body has more than {self._max_keys} keys.")
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
            raise invalid(name[:64], f"{name[:64]}: {fault}")


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
