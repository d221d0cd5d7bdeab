"""The declared service as the rest of the operator sees it: parsed once, frozen, in seconds and ratios.

`parsing.parse` makes it of whatever the API server stored.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from headrace_engine.core.contract import Terms
from headrace_operator.api.placement import Placement

_COMMIT = re.compile(r"[0-9a-f]{40}")


class Runtime(StrEnum):
    HEADRACE = "headrace"
    VLLM = "vllm"


class ScalingMode(StrEnum):
    AUTO = "Auto"
    RECOMMEND = "Recommend"
    FIXED = "Fixed"
    EXTERNAL = "External"


class TuningMode(StrEnum):
    OFF = "Off"
    RECOMMEND = "Recommend"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True)
class Cache:
    """Where a downloaded model is kept: on a claim, or on each pod's node."""

    claim_name: str | None
    size: str
    """Of the node's disk, where there is no claim: a Kubernetes quantity."""


@dataclass(frozen=True, slots=True)
class Model:
    uri: str
    revision: str | None
    served_name: str
    token_secret: str | None
    """The Secret with the hub's token; its key is always `HF_TOKEN`."""
    cache: Cache

    @property
    def is_downloaded(self) -> bool:
        return self.uri.startswith("hf://")

    @property
    def is_pinned(self) -> bool:
        """Whether every pod surely gets the same weights."""
        return not self.is_downloaded or _COMMIT.fullmatch(self.revision or "") is not None


@dataclass(frozen=True, slots=True)
class EngineCapacity:
    """What an engine starts with; changing it replaces pods."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int | None


@dataclass(frozen=True, slots=True)
class Engine:
    runtime: Runtime
    image: str | None
    """None: the operator's default."""
    image_pull_secrets: tuple[str, ...]
    args: tuple[str, ...]
    """As the user wrote them: none that Headrace sets, none that a shell sees."""
    env: tuple[tuple[str, str], ...]
    runtime_class_name: str | None
    gpu_count: int
    gpu_class: str | None
    tensor_parallel: int
    threads: int | None
    requests: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, str], ...]
    capacity: EngineCapacity
    drain_timeout_s: float
    startup_timeout_s: float


@dataclass(frozen=True, slots=True)
class Limits:
    """The two scheduler limits that move while an engine runs."""

    max_num_seqs: int
    max_num_batched_tokens: int


@dataclass(frozen=True, slots=True)
class Slo:
    attainment_ratio: float
    ttft_s: float | None
    itl_s: float | None
    e2e_s: float | None
    queue_deadline_s: float | None
    window_s: float

    @property
    def has_target(self) -> bool:
        """Whether there is anything to hold."""
        targets = (self.ttft_s, self.itl_s, self.e2e_s, self.queue_deadline_s)
        return any(target is not None for target in targets)


@dataclass(frozen=True, slots=True)
class ScaleUp:
    stabilization_s: float
    step_pods: int
    step_ratio: float
    """Of the replicas there are. The larger of the two bounds a step."""


@dataclass(frozen=True, slots=True)
class ScaleDown:
    stabilization_s: float
    step_pods: int
    period_s: float
    """Between two removals of at most `step_pods`."""


@dataclass(frozen=True, slots=True)
class Scaling:
    mode: ScalingMode
    min_replicas: int
    max_replicas: int
    scale_up: ScaleUp
    scale_down: ScaleDown
    headroom_ratio: float
    """Of each limit, that the replicas left must have free before one is removed."""
    is_bound_by_gpus: bool
    """Whether `max_replicas` is what `scaling.gpuBudget` allows, and less than was asked for."""


@dataclass(frozen=True, slots=True)
class Range:
    """Both ends included."""

    low: int
    high: int

    def clamp(self, value: int) -> int:
        return max(self.low, min(self.high, value))


@dataclass(frozen=True, slots=True)
class Tuning:
    mode: TuningMode
    max_num_seqs: Range
    max_num_batched_tokens: Range
    interval_s: float
    max_change_ratio: float
    rollback_drop_ratio: float
    """A change after which attainment is so much lower is taken back."""


@dataclass(frozen=True, slots=True)
class Tenants:
    """Who shares the service, on terms that are the engine's own. Without keys everybody is one tenant, on
    the default's.
    """

    keys: tuple[tuple[str, str], ...] = ()
    """Digest of an API key, and whose it is."""
    default: Terms = field(default_factory=Terms)
    items: tuple[tuple[str, Terms], ...] = ()

    @property
    def terms(self) -> tuple[Terms, ...]:
        """All that are declared."""
        return (self.default, *(own for _, own in self.items))


@dataclass(frozen=True, slots=True)
class Client:
    """Pods that may ask the service. None: of labels of namespaces, the service's own; of pods, all."""

    namespace_labels: tuple[tuple[str, str], ...] | None
    pod_labels: tuple[tuple[str, str], ...] | None


class RolloutStrategy(StrEnum):
    AUTO = "Auto"
    ROLLING_UPDATE = "RollingUpdate"
    RECREATE = "Recreate"


@dataclass(frozen=True, slots=True)
class Rollout:
    """How the pods of an older spec are replaced. The numbers are of pods; Recreate does not use them."""

    strategy: RolloutStrategy
    max_surge: int
    max_unavailable: int
    progress_deadline_s: float
    """Without a new pod becoming ready; then the rollout has failed. Never below the start-up timeout."""
    rollback: bool
    """Whether a failed rollout goes back to the last spec that served."""


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One InferenceService: who it is, and what it asks for with every default filled in."""

    namespace: str
    name: str
    uid: str
    generation: int
    model: Model
    engine: Engine
    slo: Slo
    scaling: Scaling
    tuning: Tuning
    tenants: Tenants
    clients: tuple[Client, ...]
    """Empty: everybody."""
    rollout: Rollout
    placement: Placement
    replicas: int | None
    """Set by hand or through `/scale`; None leaves it to `scaling`."""
    paused: bool


@dataclass(frozen=True, slots=True)
class Invalid:
    """A spec that cannot be served until its generation changes. Its running children stay as they are."""

    namespace: str
    name: str
    uid: str
    generation: int
    reason: str
    """`InvalidSpec` or `RuntimeNotSupported`: the reason of condition Accepted."""
    message: str
    """Names the field and the fix; one line a mistake."""
