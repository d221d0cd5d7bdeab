"""Where no library can be compiled the engine serves all the same, with one line in the log that says why."""

import logging
import os
import shutil
from pathlib import Path

import pytest
import torch

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.kernels import native
from headrace_engine.runner.kernels.choose import choose_kernels
from headrace_engine.runner.kernels.compile import CompileError, shared_library
from headrace_engine.runner.kv_cache import KVCache, KVShape

SOURCE = "int answer(void) { return ANSWER; }"


@pytest.fixture
def kernel_cache(tmp_path, monkeypatch):
    directory = tmp_path / "kernels"
    monkeypatch.setenv("HEADRACE_KERNEL_CACHE", str(directory))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("tempfile.tempdir", None)
    return directory


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "answer.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def without_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    native._load.cache_clear()
    yield
    native._load.cache_clear()


def needs_compiler():
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")


def cache():
    return KVCache(KVShape(1, 1, 32, 16, torch.float32), 4)


def test_a_library_is_compiled_once_and_named_by_what_went_in(kernel_cache, source):
    needs_compiler()
    first = shared_library(source, ["ANSWER=42"])
    made = first.stat().st_mtime_ns
    assert shared_library(source, ["ANSWER=42"]) == first
    assert first.stat().st_mtime_ns == made
    assert shared_library(source, ["ANSWER=43"]) != first
    assert sorted(path.suffix for path in kernel_cache.iterdir()) == [".so", ".so"]


def test_a_library_that_is_there_needs_no_compiler(kernel_cache, source, request):
    needs_compiler()
    library = shared_library(source, ["ANSWER=42"])
    request.getfixturevalue("without_compiler")
    assert shared_library(source, ["ANSWER=42"]) == library


def test_a_directory_that_others_may_write_is_not_trusted(kernel_cache, source, without_compiler):
    kernel_cache.mkdir()
    kernel_cache.chmod(0o777)
    planted = "answer-0000000000000000.so"
    (kernel_cache / planted).write_bytes(b"")
    with pytest.raises(CompileError):
        shared_library(source, ["ANSWER=42"])


def test_a_failing_compiler_leaves_nothing_behind(kernel_cache, source):
    needs_compiler()
    source.write_text("this is not C")
    with pytest.raises(CompileError, match="failed"):
        shared_library(source)
    assert list(kernel_cache.iterdir()) == []


def test_without_a_compiler_torch_computes_and_the_log_says_so_once(kernel_cache, without_compiler, caplog):
    with caplog.at_level(logging.WARNING):
        assert choose_kernels(cache(), 2, threads=1).name == "torch"
    assert [record.getMessage() for record in caplog.records] == [
        "native kernels are not used, attention will be slower: no C compiler is installed"
    ]


def test_what_was_asked_for_by_name_is_had_or_refused(kernel_cache, without_compiler):
    assert choose_kernels(cache(), 2, 1, "torch").name == "torch"
    with pytest.raises(ModelLoadError, match="no C compiler"):
        choose_kernels(cache(), 2, 1, "native")
    with pytest.raises(ModelLoadError, match="auto, native, torch"):
        choose_kernels(cache(), 2, 1, "flash")


def test_with_a_compiler_the_native_ones_are_chosen():
    needs_compiler()
    assert choose_kernels(cache(), 2, threads=1).name == "native"


def test_the_source_is_part_of_the_package():
    assert (Path(native.__file__).parent / "native.c").is_file()


def test_waiting_threads_sleep_unless_the_user_says_otherwise():
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
