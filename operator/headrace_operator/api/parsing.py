"""From the object that the API server keeps to `ServiceSpec`, or to `Invalid` with the field and what to do.

`parse` takes any JSON and never raises: objects may predate a rule of the CRD, and one bad object must
not stop the others. Everything is therefore validated again, by the models that the CRD is generated
from.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from headrace_operator.api.engine_resource import EnginePart, ResourceListPart
from headrace_operator.api.names import MAX_NAME_LENGTH
from headrace_operator.api.resource import ScalingPart, SloPart, SpecPart, TuningPart
from headrace_operator.api.rollout_resource import RolloutPart
from headrace_operator.api.spec import (
    Engine,
    EngineCapacity,
    Invalid,
    Model,
    Placement,
    Range,
    Rollout,
    RolloutStrategy,
    Runtime,
    Scaling,
    ScalingMode,
    ServiceSpec,
    Slo,
    Toleration,
    Tuning,
    TuningMode,
)
from headrace_operator.api.units import duration_s

_NAME = re.compile(rf"[a-z]([-a-z0-9]{{0,{MAX_NAME_LENGTH - 2}}}[a-z0-9])?")
_LEAST_SEQS = 8
_LEAST_TOKENS = 512
_MAX_REPORTED_MISTAKES = 5
_DEADLINE_MARGIN_S = 300.0
"""On top of the start-up timeout: to find a node and to pull the image."""


def parse(raw: Any) -> ServiceSpec | Invalid:
    """The InferenceService in `raw`. Never raises."""
    raw = raw if isinstance(raw, Mapping) else {}
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    identity = _identity(metadata)
    if _NAME.fullmatch(identity["name"]) is None:
        message = f"metadata.name: must be a DNS-1035 name of at most {MAX_NAME_LENGTH} characters"
        return Invalid(**identity, reason="InvalidSpec", message=message)
    try:
        part = SpecPart.model_validate(raw.get("spec"))
    except ValidationError as error:
        return Invalid(**identity, reason="InvalidSpec", message=_mistakes(error))
    if part.engine.runtime == "vllm":
        message = "spec.engine.runtime: vllm is not served by this version; use headrace"
        return Invalid(**identity, reason="RuntimeNotSupported", message=message)
    return _service(identity, part)


def _identity(metadata: Mapping[str, Any]) -> dict[str, Any]:
    texts = {
        key: value if isinstance(value := metadata.get(key), str) else ""
        for key in ("namespace", "name", "uid")
    }
    generation = metadata.get("generation")
    return {**texts, "generation": generation if isinstance(generation, int) else 0}


def _mistakes(error: ValidationError) -> str:
    lines = []
    for mistake in error.errors(include_url=False, include_input=False)[:_MAX_REPORTED_MISTAKES]:
        blamed = (mistake.get("ctx") or {}).get("path") or ""
        lines.append(".".join(("spec", *map(str, mistake["loc"]))) + f"{blamed}: {mistake['msg']}")
    return "\n".join(lines)[:1024].encode("utf-8", "replace").decode()


def _service(identity: dict[str, Any], part: SpecPart) -> ServiceSpec:
    return ServiceSpec(
        **identity,
        model=Model(
            uri=part.model.uri,
            revision=part.model.revision,
            served_name=part.model.served_name or identity["name"],
        ),
        engine=_engine(part.engine),
        slo=_slo(part.slo),
        scaling=_scaling(part.scaling),
        tuning=_tuning(part.tuning, part.engine),
        rollout=_rollout(part.rollout, part.engine),
        placement=_placement(part.engine),
        replicas=part.replicas,
        paused=part.paused,
    )


def _engine(part: EnginePart) -> Engine:
    return Engine(
        runtime=Runtime(part.runtime),
        image=part.image,
        runtime_class_name=part.runtime_class_name,
        gpu_count=part.gpu.count if part.gpu is not None else 0,
        threads=part.threads,
        requests=_amounts(part.resources.requests),
        limits=_amounts(part.resources.limits),
        capacity=EngineCapacity(
            max_num_seqs=part.limits.max_num_seqs,
            max_num_batched_tokens=part.limits.max_num_batched_tokens,
            max_model_len=part.limits.max_model_len,
        ),
        drain_timeout_s=duration_s(part.drain_timeout),
        startup_timeout_s=duration_s(part.startup_timeout),
    )


def _amounts(part: ResourceListPart) -> tuple[tuple[str, str], ...]:
    amounts = (("cpu", part.cpu), ("memory", part.memory), ("ephemeral-storage", part.ephemeral_storage))
    return tuple((name, str(amount)) for name, amount in amounts if amount is not None)


def _slo(part: SloPart) -> Slo:
    return Slo(
        attainment_ratio=float(part.attainment),
        ttft_s=_optional_s(part.ttft),
        itl_s=_optional_s(part.itl),
        queue_deadline_s=_optional_s(part.queue_deadline),
        window_s=duration_s(part.window),
    )


def _optional_s(text: str | None) -> float | None:
    return None if text is None else duration_s(text)


def _scaling(part: ScalingPart) -> Scaling:
    return Scaling(
        mode=ScalingMode(part.mode),
        min_replicas=part.min_replicas,
        max_replicas=part.max_replicas if part.max_replicas is not None else part.min_replicas,
        scale_up_stabilization_s=duration_s(part.scale_up.stabilization),
        scale_down_stabilization_s=duration_s(part.scale_down.stabilization),
    )


def _tuning(part: TuningPart, engine: EnginePart) -> Tuning:
    seqs, tokens = part.bounds.max_num_seqs, part.bounds.max_num_batched_tokens
    return Tuning(
        mode=TuningMode(part.mode),
        max_num_seqs=_range(seqs.min, seqs.max, least=_LEAST_SEQS, most=engine.limits.max_num_seqs),
        max_num_batched_tokens=_range(
            tokens.min, tokens.max, least=_LEAST_TOKENS, most=engine.limits.max_num_batched_tokens
        ),
        interval_s=duration_s(part.interval),
        max_change_ratio=part.max_change_percent / 100,
    )


def _range(low: int | None, high: int | None, *, least: int, most: int) -> Range:
    top = high if high is not None else most
    return Range(low=low if low is not None else min(least, top), high=max(top, low or 0))


def _rollout(part: RolloutPart, engine: EnginePart) -> Rollout:
    given, startup_s = part.progress_deadline, duration_s(engine.startup_timeout)
    return Rollout(
        strategy=RolloutStrategy(part.strategy),
        max_surge=part.max_surge,
        max_unavailable=part.max_unavailable,
        progress_deadline_s=duration_s(given) if given is not None else startup_s + _DEADLINE_MARGIN_S,
        rollback=part.rollback,
    )


def _placement(part: EnginePart) -> Placement:
    return Placement(
        node_selector=tuple(sorted(part.template.node_selector.items())),
        tolerations=tuple(
            Toleration(item.key, item.operator, item.value, item.effect, item.toleration_seconds)
            for item in part.template.tolerations
        ),
        priority_class_name=part.template.priority_class_name,
    )
