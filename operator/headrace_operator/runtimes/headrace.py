"""Headrace's own engine: `headrace serve`.

Flags hold the start-up capacity; a change of them replaces pods. Active limits and SLO targets come from the
ConfigMap: limits move by a signed call while the engine runs, targets are read by each engine that starts.
"""

import math
from collections.abc import Mapping
from typing import Any

from headrace_engine.core.policies import PolicyName
from headrace_operator.api.names import (
    ADMIN_KEYS_KEY,
    API_KEYS_KEY,
    CACHE_MOUNT_PATH,
    CONFIG_MOUNT_PATH,
    LIMITS_KEY,
    SLO_ITL_KEY,
    SLO_TTFT_KEY,
    TERMINATION_LOG,
    engine_name,
)
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.runtimes.base import Fetch
from headrace_operator.runtimes.metric_map import HEADRACE, MetricMap
from headrace_operator.runtimes.model_path import hub_name, hub_token, model_argument
from headrace_operator.runtimes.probes import engine_probes
from headrace_operator.runtimes.terms import POLICY_FLAG, scheduling_policy

_HOME = {"name": "HOME", "value": "/tmp"}  # noqa: S108 - the pod's own
_CACHE = (
    {"name": "HEADRACE_CACHE", "value": CACHE_MOUNT_PATH},
    {"name": "HEADRACE_MODELS", "value": f"{CACHE_MOUNT_PATH}/models"},
)
_OFFLINE = {"name": "HF_HUB_OFFLINE", "value": "1"}
"""What was fetched is served: the serving container asks no hub."""


class HeadraceEngine:
    """Adapter of `headrace serve`."""

    changes_limits_live = True
    drains_by_call = True
    metrics: MetricMap = HEADRACE
    command: tuple[str, ...] = ()

    def arguments(self, spec: ServiceSpec) -> tuple[str, ...]:
        capacity = spec.engine.capacity
        flags: dict[str, str | int | None] = {
            # One tenant is served in the order of arrival. What classes need is told to engines that run.
            POLICY_FLAG: None if scheduling_policy(spec) is None else PolicyName.FAIR,
            "--served-model-name": spec.model.served_name,
            "--max-num-seqs": capacity.max_num_seqs,
            "--max-num-batched-tokens": capacity.max_num_batched_tokens,
            "--max-model-len": capacity.max_model_len,
            "--threads": spec.engine.threads,
            "--queue-deadline-ms": _optional_ms(spec.slo.queue_deadline_s),
            "--shutdown-timeout": math.ceil(spec.engine.drain_timeout_s),
            "--limits-file": f"{CONFIG_MOUNT_PATH}/{LIMITS_KEY}",
            "--admin-public-keys": f"{CONFIG_MOUNT_PATH}/{ADMIN_KEYS_KEY}",
            "--api-keys": f"{CONFIG_MOUNT_PATH}/{API_KEYS_KEY}",
        }
        given = [text for flag, value in flags.items() if value is not None for text in (flag, str(value))]
        return ("serve", model_argument(spec.model), *spec.engine.args, *given)

    def environment(self, spec: ServiceSpec) -> tuple[Mapping[str, Any], ...]:
        return (
            {"name": "HEADRACE_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "HEADRACE_HOST", "value": "0.0.0.0"},  # noqa: S104 - a pod has no other address to serve on
            {"name": "HEADRACE_ADMIN_HOST", "value": "0.0.0.0"},  # noqa: S104 - signed calls only
            _HOME,
            *((*_CACHE, _OFFLINE) if spec.model.is_downloaded else ()),
            _from_config("HEADRACE_SLO_TTFT_MS", spec.name, SLO_TTFT_KEY),
            _from_config("HEADRACE_SLO_ITL_MS", spec.name, SLO_ITL_KEY),
        )

    def fetch(self, spec: ServiceSpec) -> Fetch | None:
        """With the hub's token, which the serving container lacks."""
        if not spec.model.is_downloaded:
            return None
        arguments = ("models", "add", hub_name(spec.model), "--report", TERMINATION_LOG)
        return Fetch(arguments, (_HOME, *_CACHE, *hub_token(spec.model)))

    def probes(self, spec: ServiceSpec) -> Mapping[str, Mapping[str, Any]]:
        return engine_probes(
            ready="/readyz",
            live="/livez",
            startup_timeout_s=spec.engine.startup_timeout_s,
            startup_period_s=2,
            # Two misses a second apart: a draining pod leaves the Service before it refuses requests.
            readiness_period_s=1,
            readiness_misses=2,
        )


def _optional_ms(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds * 1000))


def _from_config(variable: str, service: str, key: str) -> Mapping[str, Any]:
    source = {"name": engine_name(service), "key": key, "optional": True}
    return {"name": variable, "valueFrom": {"configMapKeyRef": source}}
