"""From the validated parts of the resource to `ServiceSpec`: seconds, ratios, and dependent defaults."""

from dataclasses import replace

from headrace_engine.core.contract import Terms
from headrace_operator.api.engine_resource import EnginePart, ResourceListPart
from headrace_operator.api.model_resource import ModelPart
from headrace_operator.api.network_resource import ClientPart
from headrace_operator.api.placement_conversion import placement
from headrace_operator.api.resource import SloPart, SpecPart
from headrace_operator.api.rollout_resource import RolloutPart
from headrace_operator.api.scaling_resource import ScalingPart
from headrace_operator.api.spec import (
    Cache,
    Client,
    Engine,
    EngineCapacity,
    Model,
    Range,
    Rollout,
    RolloutStrategy,
    Runtime,
    ScaleDown,
    ScaleUp,
    Scaling,
    ScalingMode,
    ServiceSpec,
    Slo,
    Tenants,
    Tuning,
    TuningMode,
)
from headrace_operator.api.tenants_resource import TenantsPart, TermsPart
from headrace_operator.api.tuning_resource import TuningPart
from headrace_operator.api.units import duration_s

_LEAST_SEQS = 8
_LEAST_TOKENS = 512
_CACHE_SIZE = "64Gi"
_DEADLINE_MARGIN_S = 300.0
"""On top of the start-up timeout: to find a node and to pull the image."""


def service_spec(part: SpecPart, *, namespace: str, name: str, uid: str, generation: int) -> ServiceSpec:
    """The whole of it."""
    return ServiceSpec(
        namespace=namespace,
        name=name,
        uid=uid,
        generation=generation,
        model=_model(part.model, name),
        engine=_engine(part.engine),
        slo=_slo(part.slo),
        scaling=_scaling(part.scaling, part.engine),
        tuning=_tuning(part.tuning, part.engine),
        tenants=Tenants() if part.tenants is None else _tenants(part.tenants),
        clients=tuple(_client(client) for client in part.network.clients),
        rollout=_rollout(part.rollout, part.engine),
        placement=placement(part.engine.template),
        replicas=part.replicas,
        paused=part.paused,
    )


def _model(part: ModelPart, name: str) -> Model:
    cache = part.cache
    return Model(
        uri=part.uri,
        revision=part.revision,
        served_name=part.served_name or name,
        token_secret=part.secret_ref.name if part.secret_ref is not None else None,
        cache=Cache(
            claim_name=cache.claim_name if cache is not None else None,
            size=str(cache.size) if cache is not None and cache.size is not None else _CACHE_SIZE,
        ),
    )


def _engine(part: EnginePart) -> Engine:
    gpu = part.gpu
    count = gpu.count if gpu is not None else 0
    return Engine(
        runtime=Runtime(part.runtime),
        image=part.image,
        # The API server takes each once.
        image_pull_secrets=tuple(dict.fromkeys(part.image_pull_secrets)),
        args=tuple(part.args),
        env=tuple((variable.name, variable.value) for variable in part.env),
        runtime_class_name=part.runtime_class_name,
        gpu_count=count,
        gpu_class=gpu.gpu_class if gpu is not None else None,
        tensor_parallel=(gpu.tensor_parallel if gpu is not None else None) or max(1, count),
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
        e2e_s=_optional_s(part.e2e),
        queue_deadline_s=_optional_s(part.queue_deadline),
        window_s=duration_s(part.window),
    )


def _optional_s(text: str | None) -> float | None:
    return None if text is None else duration_s(text)


def _scaling(part: ScalingPart, engine: EnginePart) -> Scaling:
    most = part.max_replicas if part.max_replicas is not None else part.min_replicas
    affordable = most
    if part.gpu_budget is not None and engine.gpu is not None:
        affordable = part.gpu_budget // engine.gpu.count
    return Scaling(
        mode=ScalingMode(part.mode),
        min_replicas=part.min_replicas,
        max_replicas=min(most, affordable),
        headroom_ratio=float(part.headroom),
        is_bound_by_gpus=affordable < most,
        scale_up=ScaleUp(
            stabilization_s=duration_s(part.scale_up.stabilization),
            step_pods=part.scale_up.max_step_pods,
            step_ratio=part.scale_up.max_step_percent / 100,
        ),
        scale_down=ScaleDown(
            stabilization_s=duration_s(part.scale_down.stabilization),
            step_pods=part.scale_down.max_step_pods,
            period_s=duration_s(part.scale_down.period),
        ),
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
        rollback_drop_ratio=float(part.rollback_on.attainment_drop),
    )


def _range(low: int | None, high: int | None, *, least: int, most: int) -> Range:
    top = high if high is not None else most
    return Range(low=low if low is not None else min(least, top), high=max(top, low or 0))


def _tenants(part: TenantsPart) -> Tenants:
    return Tenants(
        keys=tuple(sorted(part.keys.items())),
        default=_terms(part.default),
        items=tuple(
            (tenant.name, replace(_terms(tenant), min_share=float(tenant.min_share)))
            for tenant in sorted(part.items, key=lambda tenant: tenant.name)
        ),
    )


def _terms(part: TermsPart) -> Terms:
    limits = part.limits
    return Terms(
        weight=float(part.weight),
        max_num_seqs=limits.max_num_seqs,
        max_num_queued_reqs=limits.max_num_queued_reqs,
        max_num_queued_tokens=limits.max_num_queued_tokens,
        priority=part.priority,
        best_priority=part.best_priority,
        requests_per_minute=limits.requests_per_minute,
        tokens_per_minute=limits.tokens_per_minute,
        queue_deadline_ms=_optional_ms(part.slo.queue_deadline),
        ttft_ms=_optional_ms(part.slo.ttft),
    )


def _optional_ms(duration: str | None) -> int | None:
    return None if duration is None else max(1, round(duration_s(duration) * 1000))


def _client(part: ClientPart) -> Client:
    return Client(_optional_pairs(part.namespace_labels), _optional_pairs(part.pod_labels))


def _optional_pairs(labels: dict[str, str] | None) -> tuple[tuple[str, str], ...] | None:
    return None if labels is None else tuple(sorted(labels.items()))


def _rollout(part: RolloutPart, engine: EnginePart) -> Rollout:
    given, startup_s = part.progress_deadline, duration_s(engine.startup_timeout)
    return Rollout(
        strategy=RolloutStrategy(part.strategy),
        max_surge=part.max_surge,
        max_unavailable=part.max_unavailable,
        progress_deadline_s=duration_s(given) if given is not None else startup_s + _DEADLINE_MARGIN_S,
        rollback=part.rollback,
    )
