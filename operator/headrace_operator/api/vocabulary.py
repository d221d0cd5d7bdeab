"""The words of the status: actions, reasons and condition types. Scripts and alerts match on them."""

from enum import StrEnum


class Action(StrEnum):
    """What a decision does. Everything but Hold changes one thing."""

    HOLD = "Hold"
    SCALE_UP = "ScaleUp"
    SCALE_DOWN = "ScaleDown"
    RAISE_SEQ_LIMIT = "RaiseSeqLimit"
    LOWER_SEQ_LIMIT = "LowerSeqLimit"
    RAISE_BUDGET = "RaiseTokenBudget"
    LOWER_BUDGET = "LowerTokenBudget"
    ROLL_BACK_LIMITS = "RollBackLimits"


class Reason(StrEnum):
    """Why a decision was taken."""

    WITHIN_TARGET = "WithinTarget"
    QUEUE_TIME_OVER_BUDGET = "QueueTimeOverBudget"
    TTFT_OVER_TARGET = "TTFTOverTarget"
    ITL_OVER_TARGET = "ITLOverTarget"
    E2E_OVER_TARGET = "E2EOverTarget"
    BUDGET_SATURATED = "TokenBudgetSaturated"
    SEQ_LIMIT_SATURATED = "SeqLimitSaturated"
    HEADROOM_EXCESS = "HeadroomExcess"
    AT_MIN = "AtMin"
    AT_MAX = "AtMax"
    GPU_BUDGET = "GPUBudget"
    INSUFFICIENT_GPU = "InsufficientGPU"
    STABILIZING = "Stabilizing"
    SCALING_IN_PROGRESS = "ScalingInProgress"
    ROLLOUT_IN_PROGRESS = "RolloutInProgress"
    INSUFFICIENT_DATA = "InsufficientData"
    METRICS_STALE = "MetricsStale"
    PAUSED = "Paused"
    CONFLICT = "Conflict"
    PINNED_BY_USER = "PinnedByUser"
    FIXED_BY_SPEC = "FixedBySpec"
    SLO_INFEASIBLE = "SLOInfeasible"
    ROLLED_BACK = "RolledBack"


class Bound(StrEnum):
    """What keeps a change of replicas from going further: the field of the spec to change."""

    MAX_REPLICAS = "scaling.maxReplicas"
    GPU_BUDGET = "scaling.gpuBudget"
    SCALE_UP_PODS = "scaling.scaleUp.maxStepPods"
    SCALE_UP_PERCENT = "scaling.scaleUp.maxStepPercent"
    SCALE_UP_STABILIZATION = "scaling.scaleUp.stabilization"
    MIN_REPLICAS = "scaling.minReplicas"
    SCALE_DOWN_PODS = "scaling.scaleDown.maxStepPods"
    SCALE_DOWN_PERIOD = "scaling.scaleDown.period"
    SCALE_DOWN_STABILIZATION = "scaling.scaleDown.stabilization"


class ConditionType(StrEnum):
    """In the order in which status lists them."""

    READY = "Ready"
    ACCEPTED = "Accepted"
    PROGRESSING = "Progressing"
    MODEL_LOADED = "ModelLoaded"
    METRICS_AVAILABLE = "MetricsAvailable"
    SLO_MET = "SLOMet"
    SLO_FEASIBLE = "SLOFeasible"
    SCALING_ACTIVE = "ScalingActive"
    TUNING_ACTIVE = "TuningActive"
    CONFLICT = "Conflict"


class ApprovalOutcome(StrEnum):
    """What became of a recommendation's approval."""

    APPLIED = "Applied"
    REFUSED = "Refused"


class Outcome(StrEnum):
    """How a change of limits was judged."""

    KEPT = "Kept"
    ROLLED_BACK = "RolledBack"
