"""`config.json` as typed values: whoever reads a key says what it may hold.

A key that is absent or null is the default, else missing; a value of the wrong type or outside sane bounds
refuses the model and the key is named. Only keys that some reader asks for are ever looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace_engine.runner.errors import ModelLoadError


class ConfigDocument:
    """One JSON object of a model's configuration. False where it is empty."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __bool__(self) -> bool:
        return bool(self._values)

    def integer(self, key: str, *, high: int, default: int | None = None) -> int:
        """From 1 to `high`."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
            raise ModelLoadError(f"config.json: {key!r} takes an integer from 1 to {high}, not {value!r:.80}")
        return value

    def number(self, key: str, *, default: float | None = None) -> float:
        """Positive and finite."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
            raise ModelLoadError(f"config.json: {key!r} takes a positive number, not {value!r:.80}")
        return float(value)

    def number_or_none(self, key: str, *, default: float | None = None) -> float | None:
        """As `number`, but null stands for none; `default` is for a key that is absent."""
        if key in self._values:
            return self.number(key) if self.has(key) else None
        return default

    def flag(self, key: str, *, default: bool = False) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise ModelLoadError(f"config.json: {key!r} takes true or false, not {value!r:.80}")
        return value

    def text(self, key: str, *, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise ModelLoadError(f"config.json: {key!r} takes a string, not {value!r:.80}")
        return value

    def section(self, key: str) -> "ConfigDocument":
        """The object at `key`; an empty one where there is none."""
        value = self._value(key, {})
        if not isinstance(value, Mapping):
            raise ModelLoadError(f"config.json: {key!r} takes an object, not {value!r:.80}")
        return ConfigDocument(value)

    def per_layer(self, key: str, count: int, accepted: Sequence[Any], default: Sequence[Any]) -> list[Any]:
        """A list with one of the accepted values for each of `count` layers."""
        value = self._value(key, default)
        if (
            not isinstance(value, list | tuple)
            or len(value) != count
            or any(v not in accepted for v in value)
        ):
            names = ", ".join(repr(entry) for entry in accepted)
            raise ModelLoadError(f"config.json: {key!r} takes one of {names} for each of {count} layers")
        return list(value)

    def has(self, key: str) -> bool:
        return self._values.get(key) is not None

    def require(self, key: str, supported: Any, default: Any = None) -> None:
        """Refuses the model unless `key` has the one value that is supported here."""
        if (value := self._value(key, supported if default is None else default)) != supported:
            raise ModelLoadError(
                f"config.json: {key!r} is {value!r:.40} and only {supported!r} is supported for this "
                "architecture; such a model cannot be served yet"
            )

    def _value(self, key: str, default: Any) -> Any:
        value = self._values.get(key)
        return default if value is None else value
