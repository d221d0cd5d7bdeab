"""Whether a GGUF file is what its own header says, before anything is sized by it.

The `gguf` package believes the header: an array of 2^40 entries in a file of a kilobyte keeps it busy until
memory runs out. Here every count and every length is held against the bytes that are there.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import struct
from pathlib import Path
from typing import BinaryIO

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from headrace_engine.runner.errors import ModelLoadError

_MAX_HEADER_BYTES = 256 * 1024 * 1024
_MAX_ENTRIES = 1 << 21
"""Of an array, and of tensors: more than any vocabulary or model has."""
_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


def check_header(path: Path) -> None:
    """Walks the header once.

    Raises:
        ModelLoadError: no GGUF file, one that ends early, or a header that claims what cannot be.
    """
    try:
        with path.open("rb") as file:
            _Header(file, path.stat().st_size).check()
    except (ValueError, OSError) as error:
        raise ModelLoadError(
            f"{path} is truncated or no GGUF file ({error}); download this file again"
        ) from error


class _Header:
    def __init__(self, file: BinaryIO, file_bytes: int) -> None:
        self._file = file
        self._file_bytes = file_bytes
        self._left = min(_MAX_HEADER_BYTES, file_bytes)
        self._alignment = 32

    def check(self) -> None:
        if self._take(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        if (version := self._integer(4)) not in {2, 3}:
            raise ValueError(f"version {version} is not known")
        num_tensors, num_fields = self._count(), self._count()
        for _ in range(num_fields):
            self._field()
        ends = [self._tensor_end() for _ in range(num_tensors)]
        begin = -(-self._file.tell() // self._alignment) * self._alignment
        if begin + max(ends, default=0) > self._file_bytes:
            raise ValueError(f"it ends before its tensors, which take {begin + max(ends)} bytes")

    def _field(self) -> None:
        name, kind = self._string(), self._integer(4)
        if name == b"general.alignment" and kind == 4:
            self._alignment = max(1, self._integer(4))
        else:
            self._skip_value(kind)

    def _skip_value(self, kind: int) -> None:
        if kind == _STRING:
            self._string()
        elif kind == _ARRAY:
            entry, count = self._integer(4), self._count()
            if entry == _ARRAY:
                raise ValueError("arrays of arrays are not read")
            if entry == _STRING:
                for _ in range(count):
                    self._string()
            else:
                self._take(count * self._scalar_bytes(entry))
        else:
            self._take(self._scalar_bytes(kind))

    def _tensor_end(self) -> int:
        """Where the tensor's data ends, from where data begins."""
        self._string()
        num_dimensions = self._integer(4)
        if not 1 <= num_dimensions <= 4:
            raise ValueError(f"a tensor of {num_dimensions} dimensions")
        elements = math.prod(self._integer(8) for _ in range(num_dimensions))
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(self._integer(4))]
        return self._integer(8) + int(elements // block * block_bytes)

    def _scalar_bytes(self, kind: int) -> int:
        if kind not in _SCALAR_BYTES:
            raise ValueError(f"a value of the unknown type {kind}")
        return _SCALAR_BYTES[kind]

    def _count(self) -> int:
        if (count := self._integer(8)) > _MAX_ENTRIES:
            raise ValueError(f"its header claims {count} entries")
        return count

    def _string(self) -> bytes:
        return self._take(self._integer(8))

    def _integer(self, size: int) -> int:
        return int(struct.unpack("<I" if size == 4 else "<Q", self._take(size))[0])

    def _take(self, size: int) -> bytes:
        if size > self._left:
            raise ValueError("its header is longer than the file")
        self._left -= size
        data = self._file.read(size)
        if len(data) < size:
            raise ValueError("its header is longer than the file")
        return data
