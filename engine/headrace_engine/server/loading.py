"""Loads what a configuration names. The heavy imports are here, so that the port answers before they are
done.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.runner.model_directory import resolve_model
from headrace_engine.server.config import ServeConfig, compute_threads, usable_cpus
from headrace_engine.server.model import LoadedModel, ModelFacts
from headrace_engine.server.named import named

if TYPE_CHECKING:
    from headrace_engine.runner.model_runner import ModelRunner

log = logging.getLogger(__name__)


def load_model(config: ServeConfig) -> LoadedModel:
    """The model with its tokenizer and KV cache; takes seconds.

    Raises:
        ModelLoadError: it cannot be served; the message names the fix.
    """
    directories: list[Path] = []
    runner, facts = load_runner(config, directories.append)
    from headrace_engine.runner.tokenizer import Tokenizer  # noqa: PLC0415

    return LoadedModel(
        runner=runner,
        tokenizer=Tokenizer.load(directories[0], chat_template=config.chat_template),
        capacity=facts.capacity,
        vocab_size=facts.vocab_size,
        eos_token_ids=facts.eos_token_ids,
        dtype=facts.dtype,
    )


def load_runner(config: ServeConfig, found: Callable[[Path], None]) -> tuple["ModelRunner", ModelFacts]:
    """The model with its KV cache, and no tokenizer. `found` is told its directory, before weights are read.

    Raises:
        ModelLoadError: as above.
    """
    directory = resolve_model(config.model)
    found(directory)
    from headrace_engine.runner.model_runner import ModelRunner  # noqa: PLC0415

    runner = ModelRunner.load(
        directory,
        dtype=config.dtype,
        threads=config.threads or compute_threads(usable_cpus()),
        max_model_len=config.max_model_len,
        block_size=config.block_size,
        kv_cache_memory_bytes=config.kv_cache_memory_bytes,
        num_blocks=config.num_gpu_blocks_override,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
    )
    capacity = Capacity(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=runner.max_model_len,
        num_blocks=runner.num_blocks,
        block_size=runner.block_size,
    )
    return runner, ModelFacts(
        capacity=capacity,
        vocab_size=runner.vocab_size,
        eos_token_ids=runner.eos_token_ids,
        dtype=runner.dtype,
    )


def starting_limits(config: ServeConfig) -> Limits:
    """The limits file over the flags. A value above the capacity is lowered to it, and logged.

    Raises:
        ValueError: the file cannot be read, has an unknown name, or a value that no capacity could hold.
    """
    limits = Limits(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        long_prefill_token_threshold=config.long_prefill_token_threshold,
        max_num_partial_prefills=config.max_num_partial_prefills,
        max_step_ms=config.max_step_ms,
        max_num_queued_reqs=config.max_num_queued_reqs,
        max_num_queued_tokens=config.max_num_queued_tokens,
    )
    if config.limits_file is None:
        return limits
    # What only the model can tell bounds no limit.
    capacity = Capacity(
        limits.max_num_seqs, limits.max_num_batched_tokens, max_model_len=0, num_blocks=0, block_size=0
    )
    with named(config.limits_file):
        return limits.changed(_clamped(_read(config.limits_file), capacity), capacity)


def _read(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise ValueError("it holds no JSON object")  # noqa: TRY004 - what is wrong is the file's content
    return document


def _clamped(wanted: dict[str, Any], capacity: Capacity) -> dict[str, Any]:
    clamped = dict(wanted)
    for name in {entry.name for entry in fields(capacity)} & wanted.keys():
        most = getattr(capacity, name)
        if isinstance(wanted[name], int) and wanted[name] > most:
            log.warning(
                "limit lowered to the capacity", extra={"limit": name, "asked": wanted[name], "active": most}
            )
            clamped[name] = most
    return clamped
