"""Which files of a repository are taken, and whether what came is what the hub announced.

Taken are safetensors, the configuration and the tokenizer, all from the top of the repository, by exact name.
Nothing else is downloaded, and one name that points elsewhere refuses the whole repository.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace_engine.runner.errors import ModelLoadError

_WEIGHTS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.safetensors")
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_REQUIRED = ("config.json", "tokenizer.json")
_OPTIONAL = (
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the hub announces it; None is what it does not say."""

    name: str
    size: int | None
    sha256: str | None
    git_sha1: str | None
    """Of git's blob, for files that are not kept apart."""


def choose(files: Sequence[HubFile], model: str) -> list[HubFile]:
    """The files that make the model.

    Raises:
        ModelLoadError: a name that leaves the directory, or a repository without what is needed.
    """
    for file in files:
        if not _is_inside(file.name):
            raise ModelLoadError(
                f"{model} lists a file {file.name!r:.200} outside of its directory; the model is refused"
            )
    by_name = {file.name: file for file in files}
    if absent := [name for name in _REQUIRED if name not in by_name]:
        raise ModelLoadError(f"{model} has no {absent[0]}: it is not made for being served from this format")
    weights = _weights(by_name)
    if not weights:
        raise ModelLoadError(
            f"{model} has no safetensors files, and no others are read: take a repository that has them, or "
            "download a .gguf file of it and serve that"
        )
    return [by_name[name] for name in (*_REQUIRED, *_OPTIONAL, *weights) if name in by_name]


def _is_inside(name: str) -> bool:
    return (
        not name.startswith("/") and "\\" not in name and ".." not in name.split("/") and name.isprintable()
    )


def _weights(names: Iterable[str]) -> list[str]:
    """The one file, or the index with all shards. Some repositories hold a second copy, consolidated."""
    weights = [name for name in names if _WEIGHTS.fullmatch(name) and not name.startswith("consolidated")]
    if _INDEX in names:
        return [_INDEX, *(name for name in weights if name != _SINGLE)]
    return [_SINGLE] if _SINGLE in weights else []


def verify(path: Path, announced: HubFile) -> None:
    """Compares length and digest.

    Raises:
        ModelLoadError: it is another file, or a part of it.
    """
    size = path.stat().st_size
    if announced.size is not None and size != announced.size:
        raise ModelLoadError(
            f"{announced.name} came with {size} of {announced.size} bytes; start again to download it again"
        )
    if announced.sha256 is not None:
        expected, found = announced.sha256, _digest(path, "sha256", b"")
    elif announced.git_sha1 is not None:
        expected, found = announced.git_sha1, _digest(path, "sha1", f"blob {size}\0".encode())
    else:
        return
    if found != expected:
        raise ModelLoadError(
            f"{announced.name} is not the file that the hub announced (digest {found}, expected {expected})"
        )


def _digest(path: Path, algorithm: str, prefix: bytes) -> str:
    digest = hashlib.new(algorithm, prefix, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
