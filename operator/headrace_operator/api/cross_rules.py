"""Rules that join fields of different parts of the spec."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace_operator.api.rules import Rule
from headrace_operator.api.units import duration_s

if TYPE_CHECKING:
    from headrace_operator.api.resource import SpecPart

_TARGETS = {"ttft": "ttft", "itl": "itl", "e2e": "e2e", "queueDeadline": "queue_deadline"}
_HAS_TARGET = "(" + " || ".join(f"has(self.slo.{name})" for name in _TARGETS) + ")"


def _has_target(spec: "SpecPart") -> bool:
    return any(getattr(spec.slo, attribute) is not None for attribute in _TARGETS.values())


def _bounded(limit: str, end: str, attribute: str) -> Rule:
    path = f"self.tuning.bounds.{limit}"
    return Rule(
        f"!has({path}.{end}) || {path}.{end} <= self.engine.limits.{limit}",
        f"tuning.bounds.{limit}.{end} must not be above engine.limits.{limit}",
        lambda spec: (
            (bound := getattr(getattr(spec.tuning.bounds, attribute), end)) is None
            or bound <= getattr(spec.engine.limits, attribute)
        ),
        f".tuning.bounds.{limit}.{end}",
    )


_GPU_BUDGET = (
    Rule(
        "!has(self.scaling.gpuBudget) || has(self.engine.gpu)",
        "scaling.gpuBudget needs engine.gpu: replicas without GPUs use none of it",
        lambda spec: spec.scaling.gpu_budget is None or spec.engine.gpu is not None,
        ".scaling.gpuBudget",
    ),
    *(
        Rule(
            f"!has(self.scaling.gpuBudget) || !has(self.engine.gpu) || !has(self.{path}) || "
            f"self.{path} * self.engine.gpu.count <= self.scaling.gpuBudget",
            f"{path} must not need more GPUs than scaling.gpuBudget",
            holds,
            f".{path}",
        )
        for path, holds in (
            ("scaling.minReplicas", lambda spec: _in_budget(spec, spec.scaling.min_replicas)),
            ("replicas", lambda spec: _in_budget(spec, spec.replicas)),
        )
    ),
)


def _headrace_only(path: str, is_absent: Callable[["SpecPart"], bool]) -> Rule:
    return Rule(
        f"self.engine.runtime == 'headrace' || !has(self.{path})",
        f"{path} is taken with engine.runtime headrace only: vLLM has no such thing",
        lambda spec: spec.engine.runtime == "headrace" or is_absent(spec),
        f".{path}",
    )


def _in_budget(spec: "SpecPart", replicas: int | None) -> bool:
    budget, gpu = spec.scaling.gpu_budget, spec.engine.gpu
    return budget is None or gpu is None or replicas is None or replicas * gpu.count <= budget


RULES = (
    Rule(
        f"!(self.scaling.mode in ['Auto', 'Recommend']) || {_HAS_TARGET}",
        "slo needs at least one of ttft, itl, e2e and queueDeadline with scaling.mode Auto or Recommend",
        lambda spec: spec.scaling.mode not in {"Auto", "Recommend"} or _has_target(spec),
        ".slo",
    ),
    Rule(
        f"self.tuning.mode != 'Auto' || {_HAS_TARGET}",
        "slo needs at least one of ttft, itl, e2e and queueDeadline with tuning.mode Auto",
        lambda spec: spec.tuning.mode != "Auto" or _has_target(spec),
        ".slo",
    ),
    *(
        _bounded(limit, end, attribute)
        for limit, attribute in (
            ("maxNumSeqs", "max_num_seqs"),
            ("maxNumBatchedTokens", "max_num_batched_tokens"),
        )
        for end in ("min", "max")
    ),
    Rule(
        "!has(self.rollout.progressDeadline) || "
        "duration(self.rollout.progressDeadline) >= duration(self.engine.startupTimeout)",
        "rollout.progressDeadline must not be below engine.startupTimeout",
        lambda spec: (
            spec.rollout.progress_deadline is None
            or duration_s(spec.rollout.progress_deadline) >= duration_s(spec.engine.startup_timeout)
        ),
        ".rollout.progressDeadline",
    ),
    *_GPU_BUDGET,
    _headrace_only("slo.queueDeadline", lambda spec: spec.slo.queue_deadline is None),
    _headrace_only("tenants", lambda spec: spec.tenants is None),
    Rule(
        "!has(self.tenants) || !has(self.tenants.items) || "
        "self.tenants.items.all(t, !has(t.limits.maxNumSeqs) || "
        "t.limits.maxNumSeqs <= self.engine.limits.maxNumSeqs)",
        "tenants.items: limits.maxNumSeqs must not be above engine.limits.maxNumSeqs",
        lambda spec: (
            spec.tenants is None
            or all(
                (most := tenant.limits.max_num_seqs) is None or most <= spec.engine.limits.max_num_seqs
                for tenant in spec.tenants.items
            )
        ),
        ".tenants.items",
    ),
)
"""All of them, as `SpecPart` keeps them."""
