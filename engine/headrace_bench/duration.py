"""Durations as Go and Kubernetes write them: `500ms`, `2s`, `1m30s`; a bare number is seconds."""

import re

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def seconds(text: str) -> float:
    """The seconds of a duration.

    Raises:
        ValueError: it is none; the message shows what is taken.
    """
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not re.fullmatch(rf"(?:{_PART.pattern})+", text):
        raise ValueError(f"{text!r} is no duration: write 500ms, 2s or 1m30s")
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))


def written(seconds_: float | None) -> str:
    """Seconds for a reader, with three significant digits; a dash for None."""
    if seconds_ is None:
        return "-"
    if seconds_ < 1:
        return f"{seconds_ * 1000:.3g} ms" if seconds_ < 0.0995 else f"{seconds_ * 1000:.0f} ms"
    return f"{seconds_:.3g} s" if seconds_ < 1000 else f"{seconds_:.0f} s"
