"""The key-value part of a GGUF file, by names that leave the architecture out."""

from pathlib import Path
from typing import Any

from gguf import GGUFReader, ReaderTensor

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.gguf_file.header import check_header


class GGUFModel:
    """An open file; its tensors are mapped."""

    def __init__(self, path: Path) -> None:
        """Raises:
        ModelLoadError: the file is not whole, or one part of several.
        """
        check_header(path)
        self.path = path
        self._reader = GGUFReader(path)
        self.architecture = str(self.field("general.architecture"))
        if int(self.field("split.count", 1)) > 1:
            raise ModelLoadError(
                f"{path} is one part of several: join them with `llama-gguf-split --merge` first"
            )

    @property
    def tensors(self) -> dict[str, ReaderTensor]:
        return {tensor.name: tensor for tensor in self._reader.tensors}

    def field(self, name: str, *default: Any) -> Any:
        """A value by its whole name.

        Raises:
            ModelLoadError: it is not there and no default was given.
        """
        found = self._reader.fields.get(name)
        if found is not None:
            return found.contents()
        if default:
            return default[0]
        raise ModelLoadError(f"{self.path} has no {name!r}; it is no language model, or made incomplete")

    def hyperparameter(self, name: str, *default: Any) -> Any:
        """A value by its name after the architecture's."""
        return self.field(f"{self.architecture}.{name}", *default)
