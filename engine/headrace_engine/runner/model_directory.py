"""Where models stand on disk, and what may be read from them.

A model is a directory with `config.json`, `*.safetensors` and `tokenizer.json`, as Hugging Face lays it out.
Its files may come from strangers: every name that one of them mentions must be a plain file inside the
directory (links resolved), JSON is bounded in size, and anything that asks for code to be run (`auto_map`,
`trust_remote_code`, at any depth) refuses the whole model. Nothing is unpickled or imported.
"""

import json
from pathlib import Path
from typing import Any

from headrace_engine.runner.cache import models_directory
from headrace_engine.runner.errors import ModelLoadError

MAX_JSON_BYTES = 64 * 1024 * 1024
_CODE_KEYS = frozenset({"auto_map", "trust_remote_code", "custom_pipelines"})


def resolve_model(model: str) -> Path:
    """The directory of a model: a path, a name in the models directory, a GGUF file (converted at first use),
    or `hf://org/name[@revision]` (downloaded at first use).

    Raises:
        ModelLoadError: there is none, or it cannot be had.
    """
    if model.startswith("hf://"):
        from headrace_engine.runner.hub.fetch import fetch  # noqa: PLC0415 - the library, only where it is used

        return fetch(model)
    path = Path(model).expanduser()
    if path.exists():
        return as_directory(path).resolve()
    if path.name == model and (named := models_directory() / model).is_dir():
        return named.resolve()
    raise ModelLoadError(
        f"there is no model {model!r}: it is neither a directory, nor a GGUF file, nor a name in "
        f"{models_directory()}. `headrace models list` shows what can be added; hf://ORG/NAME downloads"
    )


def as_directory(path: Path) -> Path:
    """`path` itself, or what the GGUF file at `path` was converted to.

    Raises:
        ModelLoadError: some other file, or one that cannot be converted.
    """
    if not path.is_file():
        return path
    if path.suffix != ".gguf":
        raise ModelLoadError(f"{path} is no model: a model is a directory with safetensors, or a .gguf file")
    from headrace_engine.runner.gguf_file.converted import converted  # noqa: PLC0415 - torch, only where it is used

    return converted(path)


def file_in(directory: Path, name: str) -> Path:
    """The plain file `name` of a model.

    Raises:
        ModelLoadError: it is missing, no plain file, or (links resolved) outside the directory.
    """
    root = directory.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise ModelLoadError(
            f"{name!r} points outside the model's directory {directory}; the model is refused"
        )
    if not path.is_file():
        raise ModelLoadError(
            f"{directory} has no file {name!r}; the model is incomplete: add or download it again"
        )
    return path


def read_json(directory: Path, name: str) -> dict[str, Any]:
    """A JSON object of a model, refused if it asks for code to be run.

    Raises:
        ModelLoadError: missing, too large, no JSON object, or with a key that names code.
    """
    path = file_in(directory, name)
    if path.stat().st_size > MAX_JSON_BYTES:
        raise ModelLoadError(f"{path} is larger than {MAX_JSON_BYTES} bytes; no model needs that")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelLoadError(f"{path} is no valid JSON ({error}); download the model again") from error
    if not isinstance(document, dict):
        raise ModelLoadError(f"{path} holds no JSON object")
    _refuse_code(document, path)
    return document


def read_json_if_there(directory: Path, name: str) -> dict[str, Any]:
    """As `read_json`, but an absent file is an empty object."""
    return read_json(directory, name) if (directory / name).exists() else {}


def _refuse_code(document: Any, path: Path) -> None:
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if found := _CODE_KEYS & value.keys():
                raise ModelLoadError(
                    f"{path} has {min(found)!r}: it asks for code of the model's author to be run. "
                    "Headrace runs none; use a model whose architecture it knows and remove the key"
                )
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
