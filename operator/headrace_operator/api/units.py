"""Go-style durations, decimals, Kubernetes quantities and RFC 3339 times: text outside, numbers inside."""

import math
import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

DURATION_PATTERN = r"^([0-9]{1,6}(\.[0-9]{1,6})?(ms|s|m|h)){1,4}$"
QUANTITY_PATTERN = r"^[0-9]{1,15}(\.[0-9]{1,3})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_END_OF_TIMES_S = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_FACTORS: dict[str | None, Decimal] = {
    None: Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTP", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTP", start=1)},
}


def duration_s(text: str) -> float:
    """Seconds of a Go-style duration such as `500ms`, `2s`, `1m30s`.

    Raises:
        ValueError: the text is none.
    """
    if not re.fullmatch(DURATION_PATTERN[1:-1], text):
        raise ValueError(f"{text!r} is no duration; write it as 500ms, 30s or 5m")
    return math.fsum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def duration_text(seconds: float) -> str:
    """A duration as people read it: `41ms`, `1.9s`, `90s`, `5m`. Three significant digits at most."""
    if seconds < 0.9995:
        millis = seconds * 1000
        return f"{millis:.0f}ms" if millis >= 10 or millis == int(millis) else f"{millis:.1f}ms"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    if seconds < 600 and round(seconds) % 60:
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}m"


def decimal_text(value: float, digits: int = 2) -> str:
    """A number as the decimal string that the API carries instead of a float."""
    return f"{value:.{digits}f}"


def quantity(text: str | int) -> Decimal | None:
    """The number that a Kubernetes quantity stands for; None where it is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        return None
    try:
        return Decimal(match[1]) * _FACTORS[match[2]]
    except InvalidOperation:
        return None


def time_text(at_s: float) -> str:
    """RFC 3339 in UTC, to the second, as Kubernetes writes times."""
    return datetime.fromtimestamp(at_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_s(text: object) -> float | None:
    """Unix seconds of an RFC 3339 time; None where it is none, names no offset, or lies out of 1970 to
    9999: it could not be written back.
    """
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    at_s = moment.timestamp()
    return at_s if 0 <= at_s < _END_OF_TIMES_S else None
