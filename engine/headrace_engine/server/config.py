"""What `headrace serve` was told: one frozen value, made from flags and environment at the edge."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from headrace_engine.core.policies import PolicyName
from headrace_engine.server.admin_credentials import AdminCredentials
from headrace_engine.telemetry.metrics import SLO

MAX_NAME_CHARACTERS = 256
_NAME = re.compile(rf"[\w.:/@+-]{{1,{MAX_NAME_CHARACTERS}}}")
"""A name stands in replies, logs, labels of metrics and dashboards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Flag names and defaults; those that vLLM has are vLLM's."""

    model: str
    served_model_names: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8000
    admin_host: str = "127.0.0.1"
    admin_port: int = 8001
    admin: AdminCredentials = field(default_factory=AdminCredentials)
    chat_template: Path | None = None
    dtype: str = "auto"
    threads: int | None = None
    seed: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 2048
    long_prefill_token_threshold: int = 0
    max_num_partial_prefills: int = 0
    max_step_ms: int = 0
    max_num_queued_reqs: int = 1024
    max_num_queued_tokens: int = 1_048_576
    queue_deadline_s: float | None = None
    scheduling_policy: PolicyName = PolicyName.FCFS
    api_keys: Path | None = None
    block_size: int = 64
    num_gpu_blocks_override: int | None = None
    kv_cache_memory_bytes: int | None = None
    enable_prefix_caching: bool = True
    limits_file: Path | None = None
    shutdown_timeout_s: float = 120.0
    drain_grace_s: float = 5.0
    slo: SLO = field(default_factory=SLO)
    otlp_traces_endpoint: str | None = None

    def check(self) -> None:
        """Raises `ValueError` for a name that nobody should have to escape, and for two flags that cannot
        both hold, whoever gave them.
        """
        for name in self.names:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"a model cannot be served as {name[:64]!r}: set --served-model-name to 1 to "
                    f"{MAX_NAME_CHARACTERS} letters, digits and ._:/@+-"
                )
        if self.num_gpu_blocks_override is not None and self.kv_cache_memory_bytes is not None:
            raise ValueError(
                "--num-gpu-blocks-override and --kv-cache-memory-bytes both say how large the KV cache is: "
                "give one of them"
            )
        same_port = self.port == self.admin_port != 0
        if self.admin.given and same_port and self.host == self.admin_host:
            raise ValueError(f"--port and --admin-port are both {self.port}: give each its own")

    @property
    def names(self) -> tuple[str, ...]:
        """Names that clients may use; the first is the one that metrics carry."""
        path = Path(self.model)
        of_directory = path.resolve().name if path.name in ("", "..") else path.name
        return self.served_model_names or (of_directory,)


def usable_cpus() -> int:
    """Processors that this process may use: its affinity, or its cgroup's quota where that is less."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return allowed
    return allowed if quota == "max" else max(1, min(allowed, int(quota) // int(period)))


def compute_threads(cpus: int) -> int:
    """One is left to HTTP where there are enough."""
    return cpus - 1 if cpus > 2 else cpus
