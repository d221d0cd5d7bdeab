"""vLLM's OpenAI server: `vllm serve`. Tried with 0.32.

It fixes its limits at the start and has no port for calls, so limits change by replacing pods and it drains
when its pod is deleted: preStop, then SIGTERM, on which it finishes what it has (`--shutdown-timeout`). It
downloads models by itself, hence with the hub's token in its environment.
"""

import math
from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import CACHE_MOUNT_PATH, HTTP_PORT
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.runtimes.base import Fetch
from headrace_operator.runtimes.metric_map import VLLM, MetricMap
from headrace_operator.runtimes.model_path import hub_token, model_argument
from headrace_operator.runtimes.probes import engine_probes

_VARIABLES = {
    "HOME": "/tmp",  # noqa: S108 - the pod's own
    # The pod's user has no name, and compilers ask for one.
    "USER": "vllm",
    # It reports home otherwise.
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


class VllmEngine:
    """Adapter of `vllm serve`."""

    changes_limits_live = False
    drains_by_call = False
    metrics: MetricMap = VLLM
    command: tuple[str, ...] = ("vllm", "serve")

    def arguments(self, spec: ServiceSpec) -> tuple[str, ...]:
        capacity, split = spec.engine.capacity, spec.engine.tensor_parallel
        flags: dict[str, str | int | None] = {
            "--host": "0.0.0.0",  # noqa: S104 - a pod has no other address to serve on
            "--port": HTTP_PORT,
            "--revision": spec.model.revision,
            "--served-model-name": spec.model.served_name,
            "--max-num-seqs": capacity.max_num_seqs,
            "--max-num-batched-tokens": capacity.max_num_batched_tokens,
            "--max-model-len": capacity.max_model_len,
            "--tensor-parallel-size": split if split > 1 else None,
            "--shutdown-timeout": math.ceil(spec.engine.drain_timeout_s),
        }
        given = [text for flag, value in flags.items() if value is not None for text in (flag, str(value))]
        return (_model(spec), *spec.engine.args, *given)

    def environment(self, spec: ServiceSpec) -> tuple[Mapping[str, Any], ...]:
        variables = dict(_VARIABLES)
        if spec.model.is_downloaded:
            variables["HF_HOME"] = f"{CACHE_MOUNT_PATH}/huggingface"
        named = tuple({"name": name, "value": value} for name, value in variables.items())
        return (*named, *hub_token(spec.model))

    def fetch(self, spec: ServiceSpec) -> Fetch | None:  # noqa: ARG002
        return None

    def probes(self, spec: ServiceSpec) -> Mapping[str, Mapping[str, Any]]:
        return engine_probes(
            ready="/health",
            live="/health",
            startup_timeout_s=spec.engine.startup_timeout_s,
            startup_period_s=5,
            readiness_period_s=2,
            readiness_misses=3,
        )


def _model(spec: ServiceSpec) -> str:
    return (
        model_argument(spec.model) if not spec.model.is_downloaded else spec.model.uri.removeprefix("hf://")
    )
