"""Tensors of a model, read from its safetensors files by name and checked by shape.

Sharded or not. Only `*.safetensors` is ever opened; a file shorter than its own header says, a shard that is
missing, a tensor that is missing or has another shape each refuse the model with the name of what is wrong.
"""

import math
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.model_directory import file_in, read_json

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


class Weights:
    """An open model. A context manager: its files are mapped until it is closed."""

    def __init__(self, directory: Path, dtype: torch.dtype) -> None:
        """Opens every shard.

        Raises:
            ModelLoadError: no safetensors, a shard missing, truncated or outside the directory.
        """
        self.directory = directory
        self.dtype = dtype
        self._shard_of: dict[str, Any] = {}
        with ExitStack() as files:
            for name in shard_names(directory):
                shard = files.enter_context(_open(file_in(directory, name)))
                self._shard_of |= dict.fromkeys(shard.keys(), shard)
            self._files = files.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def num_parameters(self) -> int:
        return sum(math.prod(shard.get_slice(name).get_shape()) for name, shard in self._shard_of.items())

    def tensor(self, name: str, *shape: int, add: float = 0.0) -> Tensor:
        """A copy of the tensor in the compute type, `add` added before it is rounded to that.

        Raises:
            ModelLoadError: it is not there, no floating numbers, or not of the shape that the config says.
        """
        shard = self._shard_of.get(name)
        if shard is None:
            raise ModelLoadError(
                f"{self.directory} has no tensor {name!r}: a shard is missing, "
                "or config.json describes another model"
            )
        stored = shard.get_slice(name)
        if stored.get_dtype() not in _FLOATS:
            raise ModelLoadError(
                f"tensor {name!r} is stored as {stored.get_dtype()}: quantized weights are not read; use the "
                "unquantized model"
            )
        found = tuple(stored.get_shape())
        if found != shape:
            raise ModelLoadError(
                f"tensor {name!r} has shape {found} where config.json says {shape}; "
                "the files do not belong together"
            )
        tensor: Tensor = shard.get_tensor(name)
        if add:
            tensor = tensor.float() + add
        return tensor.to(self.dtype, copy=True)

    def has(self, name: str) -> bool:
        return name in self._shard_of

    def stacked(self, names: Iterable[str], rows: Iterable[int], *columns: int) -> Tensor:
        """Several matrices (or their biases, without columns) as one, row after row, so that one product
        computes all of them.
        """
        return torch.cat(
            [self.tensor(name, count, *columns) for name, count in zip(names, rows, strict=True)]
        )


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt", device="cpu")
    except (SafetensorError, OSError) as error:
        raise ModelLoadError(
            f"{path} is truncated or no safetensors file ({error}); download this file again"
        ) from error


def shard_names(directory: Path) -> list[str]:
    """The safetensors files of a model, as its index lists them.

    Raises:
        ModelLoadError: there are none, or the index names something else than a safetensors file.
    """
    if not (directory / _INDEX).exists():
        if not (directory / _SINGLE).exists():
            raise ModelLoadError(
                f"{directory} has neither {_SINGLE} nor {_INDEX}. Weights are read from safetensors files "
                "only; convert .bin and .pt checkpoints first"
            )
        return [_SINGLE]
    weight_map = read_json(directory, _INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise ModelLoadError(f"{directory / _INDEX} has no 'weight_map' of tensor names to file names")
    names = sorted(set(weight_map.values()))
    for name in names:
        if not name.endswith(".safetensors"):
            raise ModelLoadError(f"{directory / _INDEX} names {name!r}; only .safetensors files are read")
    return names
