"""Prometheus' text format, from a source that is not trusted. Pure.

Only the wanted series are parsed, everything is bounded before it is parsed, and a value that no count, gauge
or time of ours can have (NaN, infinite, negative) is left out and counted: missing, never zero.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

MAX_LINE_BYTES = 16 * 1024
MAX_LABELS = 32
MAX_SERIES = 20_000

_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|(?=\}))')
_CLOSE = re.compile(r"\s*\}\s*")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan)", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)")
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class ExpositionError(ValueError):
    """The text breaks the format or a bound; the whole scrape counts as failed."""


@dataclass(frozen=True, slots=True)
class Sample:
    labels: Mapping[str, str]
    value: float


@dataclass(slots=True)
class Exposition:
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    families: set[str] = field(default_factory=set)
    """What a TYPE line declares: a declared counter without a series has counted nothing."""
    implausible: int = 0
    """Wanted series left out because of their value."""


def parse(body: bytes, *, wanted: Collection[str]) -> Exposition:
    """The wanted series, by full sample name (`x_bucket`, not `x`). Raises `ExpositionError`.

    A series with a timestamp of its own is left out: a scrape tells of now.
    """
    exposition, series = Exposition(), 0
    names = {name.encode(): name for name in wanted}
    for line in body.split(b"\n"):
        if len(line) > MAX_LINE_BYTES:
            raise ExpositionError(f"a line of {len(line)} bytes, at most {MAX_LINE_BYTES} are read")
        if not line or line.isspace():
            continue
        if line.startswith(b"#"):
            words = line.split(None, 3)
            if len(words) > 2 and words[1] == b"TYPE" and len(exposition.families) < MAX_SERIES:
                exposition.families.add(words[2].decode("utf-8", "replace"))
            continue
        series += 1
        if series > MAX_SERIES:
            raise ExpositionError(f"more than {MAX_SERIES} series")
        name = names.get(b"".join(line.partition(b"{")[0].split(None, 1)[:1]))
        if name is not None:
            _take(exposition, name, line)
    return exposition


def _take(exposition: Exposition, name: str, line: bytes) -> None:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ExpositionError(f"{name}: not UTF-8") from error
    rest = text.strip()[len(name) :].lstrip()
    labels = _NO_LABELS
    if rest.startswith("{"):
        labels, rest = _labels(name, rest[1:])
    words = rest.split()
    if not 1 <= len(words) <= 2 or not _NUMBER.fullmatch(words[0]):
        raise ExpositionError(f"{name}: no value where one must be")
    if len(words) == 2:
        return
    value = float(words[0])
    if not math.isfinite(value) or value < 0:
        exposition.implausible += 1
        return
    exposition.samples.setdefault(name, []).append(Sample(labels, value))


def _labels(name: str, text: str) -> tuple[dict[str, str], str]:
    """The labels up to the closing brace, and what follows it."""
    labels: dict[str, str] = {}
    position = 0
    while (close := _CLOSE.match(text, position)) is None:
        match = _LABEL.match(text, position)
        if match is None or match[1] in labels:
            raise ExpositionError(f"{name}: malformed labels")
        labels[match[1]] = _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], match[2])
        if len(labels) > MAX_LABELS:
            raise ExpositionError(f"{name}: more than {MAX_LABELS} labels")
        position = match.end()
    return labels, text[close.end() :]
