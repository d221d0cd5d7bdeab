"""A GGUF file that is cut off, or whose header claims more than there is, is refused at once and by name."""

import struct

import pytest
from model_gguf import write

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.gguf_file.header import check_header
from headrace_engine.runner.model_directory import resolve_model


@pytest.fixture(scope="module")
def whole(tiny_model_dir, tmp_path_factory):
    return write(tiny_model_dir, tmp_path_factory.mktemp("gguf") / "m.gguf").read_bytes()


def string(text):
    return struct.pack("<Q", len(text)) + text


def head(tensors=0, fields=0, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, fields)


def array(entry, count):
    return string(b"a") + struct.pack("<IIQ", 9, entry, count)


def tensor(dimensions, kind=0, offset=0, name=b"t"):
    sizes = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
    return string(name) + sizes + struct.pack("<IQ", kind, offset)


HOSTILE = {
    "nothing": b"",
    "another format": b"PK\x03\x04" + bytes(100),
    "an unknown version": head(version=9),
    "more fields than bytes": head(fields=2**20) + bytes(64),
    "fields beyond counting": head(fields=2**63) + bytes(64),
    "tensors beyond counting": head(tensors=2**63) + bytes(64),
    "a name of 2^60 bytes": head(fields=1) + struct.pack("<Q", 2**60) + bytes(64),
    "an array of 2^40 entries": head(fields=1) + array(4, 2**40) + bytes(64),
    "an array a little too long": head(fields=1) + array(4, 40) + bytes(64),
    "strings that never end": head(fields=1) + array(8, 2**20) + bytes(64),
    "arrays in arrays": head(fields=1) + array(9, 2) + bytes(64),
    "a value of no type": head(fields=1) + string(b"a") + struct.pack("<I", 77) + bytes(64),
    "a tensor past the end": head(tensors=1) + tensor([1000]) + bytes(64),
    "a tensor whose size overflows": head(tensors=1) + tensor([2**62, 2**62]) + bytes(64),
    "a tensor at an offset past the end": head(tensors=1) + tensor([4], offset=2**50) + bytes(64),
    "a tensor of no type": head(tensors=1) + tensor([4], kind=999) + bytes(64),
    "a tensor of many dimensions": head(tensors=1) + tensor([1] * 9) + bytes(64),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_cannot_be_is_refused(content, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"m\.gguf is truncated or no GGUF file"):
        resolve_model(str(path))


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.02, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused_wherever_it_ends(whole, share, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModelLoadError, match="download this file again"):
        check_header(path)


def test_a_whole_file_passes(whole, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(whole)
    check_header(path)


def test_another_file_than_gguf_is_no_model(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"x")
    with pytest.raises(ModelLoadError, match=r"a \.gguf file"):
        resolve_model(str(path))
