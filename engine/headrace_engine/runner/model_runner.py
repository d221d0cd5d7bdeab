"""Computes plans: the seam between the scheduler's world of tokens and blocks and torch's world of tensors.

A runner owns the weights and the KV cache, and nothing of any request: a plan's rows bring all that it needs.
What a row yields depends on its tokens, its blocks, its sampling and its positions alone.
"""

import threading
import time
from pathlib import Path

import torch

from headrace_engine.core.plan import Outcome, Plan
from headrace_engine.runner import memory
from headrace_engine.runner.batch import Batch
from headrace_engine.runner.budget import Asked, MemoryBudget, step_bytes, token_bytes, weight_bytes
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.families import Model, family
from headrace_engine.runner.kernels import Kernels
from headrace_engine.runner.kernels.choose import choose_kernels
from headrace_engine.runner.kv_cache import KVCache, KVShape, fit_blocks
from headrace_engine.runner.model_directory import as_directory
from headrace_engine.runner.next_tokens import next_tokens, score_prompts
from headrace_engine.runner.weights import Weights

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_MAX_SEQS = 256


class ModelRunner:
    """A model that is loaded and ready to compute plans. Used by one thread at a time."""

    def __init__(
        self,
        model: Model,
        config: ModelConfig,
        kernels: Kernels,
        cache: KVCache,
        *,
        max_model_len: int,
    ) -> None:
        self._model = model
        self._kernels = kernels
        self._threads = torch.get_num_threads()
        self._bound_thread: int | None = None
        self.num_blocks = cache.num_blocks
        self.block_size = cache.shape.block_size
        self.kv_cache_bytes = cache.num_blocks * cache.shape.block_bytes
        self.max_model_len = max_model_len
        self.vocab_size = config.vocab_size
        self.eos_token_ids = config.eos_token_ids
        self.dtype = str(cache.shape.dtype).removeprefix("torch.")
        self.device = "cpu"
        self.attention_backend = kernels.name

    @classmethod
    def load(
        cls,
        directory: Path,
        *,
        dtype: str = "auto",
        device: str = "cpu",
        threads: int | None = None,
        max_model_len: int | None = None,
        block_size: int = 64,
        kv_cache_memory_bytes: int | None = None,
        num_blocks: int | None = None,
        max_num_seqs: int = _MAX_SEQS,
        max_num_batched_tokens: int = 2048,
        attention_backend: str = "auto",
    ) -> "ModelRunner":
        """Loads the model of a directory (or of a GGUF file) and allocates its KV cache.

        `threads` None leaves torch's own choice; `max_model_len` None takes the model's; the KV cache is
        sized by `num_blocks`, else by `kv_cache_memory_bytes`, else so that `max_num_seqs` sequences of full
        length fit as far as memory allows.

        Raises:
            ModelLoadError: the model or the machine cannot do this; the message names the fix.
        """
        if device != "cpu":
            raise ModelLoadError(f"device {device!r} is not supported; 'cpu' is")
        compute_type = _compute_type(dtype)
        if threads is not None:
            torch.set_num_threads(threads)
        directory = as_directory(directory)
        config = ModelConfig.load(directory)
        length = _model_length(config, max_model_len)
        shape = KVShape(
            config.num_hidden_layers, config.num_key_value_heads, config.head_dim, block_size, compute_type
        )
        step = step_bytes(config, max_num_batched_tokens)
        kv, least_kv = _asked_kv(shape, length, kv_cache_memory_bytes, num_blocks)
        per_token = Asked("--max-num-batched-tokens", max_num_batched_tokens, token_bytes(config))
        build = family(config.architecture)
        with Weights(directory, compute_type) as weights:
            taken = weight_bytes(weights.num_parameters, config, compute_type)
            MemoryBudget(taken, least_kv, step, memory.available_bytes()).check(kv, per_token)
            model = build(config, weights, length)
        blocks = fit_blocks(
            shape,
            max_model_len=length,
            max_num_seqs=max_num_seqs,
            available_bytes=memory.available_bytes() - step,
            memory_bytes=kv_cache_memory_bytes,
            num_blocks=num_blocks,
        )
        cache = KVCache(shape, blocks)
        kernels = choose_kernels(
            cache, config.num_attention_heads, torch.get_num_threads(), attention_backend
        )
        return cls(model, config, kernels, cache, max_model_len=length)

    def run(self, plan: Plan) -> Outcome:
        """Computes the rows of a plan, writes their keys and values, samples where a row samples."""
        began_s = time.perf_counter()
        self._bind_threads()
        if not plan.rows:
            return Outcome({}, 0.0)
        with torch.inference_mode():
            batch = Batch.of(plan.rows, self.block_size)
            hidden = self._model.forward(batch, self._kernels)
            logits = self._model.logits(hidden[: batch.num_sampled])
            sampled, logprobs = next_tokens(logits, plan.rows)
            scored = score_prompts(
                hidden[batch.num_sampled :], self._model.logits, self.vocab_size, plan.rows
            )
        return Outcome(sampled, time.perf_counter() - began_s, logprobs, scored)

    def _bind_threads(self) -> None:
        """OpenMP keeps its thread count per calling thread: the one that computes has to be told."""
        if self._bound_thread != (current := threading.get_ident()):
            torch.set_num_threads(self._threads)
            self._bound_thread = current


def _asked_kv(
    shape: KVShape, length: int, memory_bytes: int | None, num_blocks: int | None
) -> tuple[Asked, int]:
    """What decides the size of the KV cache, and the least bytes that are of use."""
    if num_blocks is not None:
        return Asked(
            "--num-gpu-blocks-override", num_blocks, shape.block_bytes
        ), num_blocks * shape.block_bytes
    if memory_bytes is not None:
        return Asked("--kv-cache-memory-bytes", memory_bytes, 1), memory_bytes
    least_bytes = -(-length // shape.block_size) * shape.block_bytes
    return Asked("--max-model-len", length, shape.block_bytes / shape.block_size), least_bytes


def _compute_type(dtype: str) -> torch.dtype:
    if dtype == "auto":
        has_bfloat16 = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001
        return torch.bfloat16 if has_bfloat16 else torch.float32
    if dtype not in _DTYPES:
        raise ModelLoadError(f"dtype {dtype!r} is not supported; auto, {', '.join(_DTYPES)} are")
    return _DTYPES[dtype]


def _model_length(config: ModelConfig, max_model_len: int | None) -> int:
    longest = config.max_position_embeddings
    if max_model_len is None:
        return longest
    if not 1 <= max_model_len <= longest:
        raise ModelLoadError(
            f"a context of {max_model_len} tokens was asked for and the model was made for {longest}: "
            f"set --max-model-len to at most {longest}"
        )
    return max_model_len
