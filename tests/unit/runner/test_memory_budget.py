"""How many KV blocks are allocated, and what is said when memory is too small."""

import re
from pathlib import Path

import pytest
import torch

from headrace_engine.runner.budget import Asked, MemoryBudget
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.kv_cache import KVCache, KVShape, fit_blocks
from headrace_engine.runner.memory import available_bytes
from headrace_engine.runner.model_runner import ModelRunner

MIB = 1 << 20
SHAPE = KVShape(num_layers=8, num_kv_heads=4, head_dim=64, block_size=64, dtype=torch.float32)
"""One block is exactly 1 MiB."""


def fit(**options):
    return fit_blocks(
        SHAPE, **{"max_model_len": 640, "max_num_seqs": 8, "available_bytes": 1000 * MIB, **options}
    )


def test_a_block_is_a_mebibyte():
    assert SHAPE.block_bytes == MIB


def test_every_sequence_may_reach_its_full_length_where_memory_allows():
    assert fit() == 8 * 10


def test_a_part_of_a_block_takes_a_block():
    assert fit(max_model_len=641) == 8 * 11


def test_little_memory_leaves_less_than_all_need():
    assert fit(available_bytes=100 * MIB) == 60


def test_the_budget_asked_for_is_taken_as_it_is():
    assert fit(memory_bytes=200 * MIB) == 200
    assert fit(num_blocks=17, memory_bytes=200 * MIB) == 17


def test_less_than_one_sequence_is_refused_with_the_length_that_fits():
    with pytest.raises(ModelLoadError, match=re.escape("lower --max-model-len to at most 384")) as refusal:
        fit(available_bytes=10 * MIB)
    assert "6 MiB of 10 MiB" in str(refusal.value)
    assert "raise the memory limit" in str(refusal.value)


@pytest.mark.parametrize(
    ("asked", "flag"),
    [({"num_blocks": 1}, "--num-gpu-blocks-override"), ({"memory_bytes": 1000}, "--kv-cache-memory-bytes")],
)
def test_less_than_one_sequence_names_the_flag_that_says_so(asked, flag):
    with pytest.raises(ModelLoadError, match=f"raise {flag}"):
        fit(**asked)


def test_more_than_there_is_is_refused():
    with pytest.raises(ModelLoadError, match="asks for 2000 MiB and 1000 MiB"):
        fit(memory_bytes=2000 * MIB)


LENGTH = Asked("--max-model-len", 4096, 301 * MIB / 4096)
STEP = Asked("--max-num-batched-tokens", 2048, 100 * MIB / 2048)


def test_what_a_model_takes_is_told_part_by_part_before_it_is_loaded():
    MemoryBudget(600 * MIB, 300 * MIB, 100 * MIB, 1000 * MIB).check(LENGTH, STEP)
    with pytest.raises(ModelLoadError) as refusal:
        MemoryBudget(600 * MIB, 301 * MIB, 100 * MIB, 1000 * MIB).check(LENGTH, STEP)
    assert str(refusal.value) == (
        "the model needs 1001 MiB of memory and 1000 MiB are available: weights 600, KV cache 301 "
        "(--max-model-len 4096), largest step 100 (--max-num-batched-tokens 2048). Raise the memory limit, "
        "take a smaller model, lower --max-model-len to at most 4082, or lower --max-num-batched-tokens to "
        "at most 2027"
    )


def test_no_flag_is_named_that_does_not_help():
    with pytest.raises(ModelLoadError, match=r"Raise the memory limit, or take a smaller model$"):
        MemoryBudget(1600 * MIB, 1 * MIB, 100 * MIB, 1000 * MIB).check(LENGTH, STEP)
    huge = Asked("--max-num-batched-tokens", 10**9, MIB)
    with pytest.raises(ModelLoadError, match=r"model, or lower --max-num-batched-tokens to at most 9$"):
        MemoryBudget(600 * MIB, 301 * MIB, 10**9 * MIB, 910 * MIB).check(LENGTH, huge)


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        ({"max_num_batched_tokens": 10**9}, r"lower --max-num-batched-tokens to at most \d+$"),
        ({"kv_cache_memory_bytes": 2**50}, r"lower --kv-cache-memory-bytes to at most \d+$"),
        ({"num_blocks": 10**9}, r"lower --num-gpu-blocks-override to at most \d+$"),
    ],
)
def test_an_absurd_flag_is_refused_with_the_value_that_would_do(tiny_model_dir, asked, remedy, monkeypatch):
    monkeypatch.setattr("headrace_engine.runner.memory.available_bytes", lambda: 200 * MIB)
    options = {"max_num_batched_tokens": 16, "dtype": "float32", "max_model_len": 64} | asked
    with pytest.raises(ModelLoadError, match=remedy) as refusal:
        ModelRunner.load(tiny_model_dir, **options)
    (name,) = asked
    most = int(str(refusal.value).rsplit(" ", 1)[1])
    ModelRunner.load(tiny_model_dir, **options | {name: most})


def test_a_model_that_does_not_fit_is_refused_before_its_weights_are_read(tiny_model_dir, monkeypatch):
    monkeypatch.setattr("headrace_engine.runner.memory.available_bytes", lambda: 3 * MIB)
    monkeypatch.setattr("headrace_engine.runner.weights.Weights.tensor", None)
    with pytest.raises(ModelLoadError, match=r"3 MiB are available: weights \d+, KV cache \d+"):
        ModelRunner.load(tiny_model_dir, dtype="float32", max_num_batched_tokens=16)


def test_memory_is_touched_only_where_it_is_used():
    before_bytes = resident_bytes()
    cache = KVCache(SHAPE, 4096)
    assert cache.keys.nbytes + cache.values.nbytes == 4096 * MIB
    assert cache.keys[3, 4000].count_nonzero() == 0
    assert resident_bytes() - before_bytes < 256 * MIB


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.fixture
def machine(tmp_path):
    """A machine with 8 GiB available, and a control group path for this process."""
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (cgroups / "pods/engine").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n")
    (proc / "self/cgroup").write_text("0::/pods/engine\n")
    return proc, cgroups


def limit(group, maximum, current, inactive_file=0):
    (group / "memory.max").write_text(f"{maximum}\n")
    (group / "memory.current").write_text(f"{current}\n")
    (group / "memory.stat").write_text(f"anon 5\ninactive_file {inactive_file}\n")


def test_without_limits_the_machine_decides(machine):
    assert available_bytes(*machine) == 8192 * MIB


def test_a_control_group_s_limit_counts_without_its_clean_page_cache(machine):
    limit(machine[1] / "pods/engine", 2048 * MIB, 1024 * MIB, inactive_file=512 * MIB)
    assert available_bytes(*machine) == 1536 * MIB


def test_the_tightest_group_above_decides(machine):
    limit(machine[1] / "pods/engine", "max", 0)
    limit(machine[1] / "pods", 1024 * MIB, 1000 * MIB)
    assert available_bytes(*machine) == 24 * MIB


def test_a_group_over_its_limit_leaves_nothing(machine):
    limit(machine[1] / "pods/engine", 100 * MIB, 200 * MIB)
    assert available_bytes(*machine) == 0


def test_a_limit_of_the_first_generation_counts_as_well(machine):
    proc, cgroups = machine
    (proc / "self/cgroup").write_text("5:cpu:/\n4:memory:/on/the/host\n0::/on/the/host\n")
    own = cgroups / "memory"  # what a container sees mounted there, whatever its path on the host
    own.mkdir()
    (own / "memory.usage_in_bytes").write_text(f"{1024 * MIB}\n")
    (own / "memory.stat").write_text(f"rss 5\ntotal_inactive_file {256 * MIB}\n")
    (own / "memory.limit_in_bytes").write_text(f"{2048 * MIB}\n")
    assert available_bytes(proc, cgroups) == 1280 * MIB
    (own / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert available_bytes(proc, cgroups) == 8192 * MIB
