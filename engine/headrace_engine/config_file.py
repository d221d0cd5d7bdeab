"""A YAML file of flags: `max-num-seqs: 64`. The command line wins, then the environment, then the file.

Keys are flag names without their dashes in front, `model` is the positional argument. A key that is no flag
is refused with the nearest, and nothing is converted on the way that a command line would not convert.
"""

import difflib
from collections.abc import Collection, Hashable
from pathlib import Path
from typing import Any

import yaml

from headrace_engine.foreign_flags import INSTEAD

MAX_FILE_BYTES = 64 << 10


class ConfigFileError(ValueError):
    """A file that cannot be used; the message says which key, and what would do."""


def read_flags(path: Path, *, flags: Collection[str], switches: Collection[str]) -> dict[str, Any]:
    """The file's values by parameter name (`max_num_seqs`), as text; those of `switches` as bool, lists as
    lists of text. A key without a value is as if it were not there.

    Raises:
        ConfigFileError: unreadable, no mapping, an unknown or repeated key, a value of the wrong shape.
    """
    values: dict[str, Any] = {}
    for key, value in _mapping(path).items():
        name, is_negated = _flag_of(str(key), flags, switches)
        if name in values:
            raise ConfigFileError(f"{path} says {_dashed(name)} twice.")
        if value is not None:
            values[name] = (
                _switch(str(key), value, is_negated=is_negated) if name in switches else _text(key, value)
            )
    return values


def _mapping(path: Path) -> dict[Hashable, Any]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigFileError(f"{path} is longer than {MAX_FILE_BYTES} bytes.")
        document = yaml.load(path.read_bytes(), _Loader)  # noqa: S506 - a safe loader, only stricter
    except (OSError, yaml.YAMLError) as error:
        raise ConfigFileError(f"{path} cannot be read: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigFileError(f"{path} holds no mapping of flags to values.")
    return document


def _flag_of(key: str, flags: Collection[str], switches: Collection[str]) -> tuple[str, bool]:
    """The parameter that a key is about, and whether the key is its negation (`no-...`)."""
    name = key.replace("-", "_")
    if name in flags:
        return name, False
    positive = name.removeprefix("no_")
    if positive != name and positive in switches:
        return positive, True
    near = difflib.get_close_matches(name, flags, n=1)
    hint = INSTEAD.get(f"--{_dashed(name)}") or (f"Did you mean {_dashed(near[0])!r}?" if near else "")
    raise ConfigFileError(f"{key[:64]!r} is no flag of this command. {hint}".rstrip())


def _switch(key: str, value: Any, *, is_negated: bool) -> bool:
    if not isinstance(value, bool):
        raise ConfigFileError(f"{key} takes true or false.")
    return value is not is_negated


def _text(key: Hashable, value: Any) -> Any:
    many = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in many):
        raise ConfigFileError(f"{key} takes a text, a number, or a list of them.")
    texts = [str(each) for each in many]
    return texts if isinstance(value, list) else texts[0]


def _dashed(name: str) -> str:
    return name.replace("_", "-")


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, where the library would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the library's
        keys = [key.value for key, _ in node.value]
        repeated = {key for key in keys if keys.count(key) > 1 and isinstance(key, str)}
        if repeated:
            raise yaml.constructor.ConstructorError(
                None, None, f"{min(repeated)} stands twice", node.start_mark
            )
        return super().construct_mapping(node, deep=deep)
