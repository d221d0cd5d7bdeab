"""What is known about one service at one moment: the only input of a decision besides the spec and the time.

Everything is a value. What could not be learnt is None, never zero; a rule that needs it holds.
Times named `_s` without more are Unix seconds; ages and spans say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace_engine.core.policies import PolicyName
from headrace_operator.api.spec import Limits
from headrace_operator.api.status import Previous
from headrace_operator.decide.histogram import Histogram


@dataclass(frozen=True, slots=True)
class Mix:
    """The requests that were answered to their end, as the engines recorded them: a sample of all."""

    newest_s: float
    """When the newest of them ended."""
    requests: int
    prompt_tokens_p50: float | None
    prompt_tokens_p95: float | None
    output_tokens_p50: float | None
    output_tokens_p95: float | None
    cached_ratio: float | None
    """Share of the prompt tokens that were found in the prefix cache."""


@dataclass(frozen=True, slots=True)
class StepWork:
    """The same of the steps."""

    newest_s: float
    steps: int
    duration_p50_s: float | None
    duration_p95_s: float | None
    tokens_p95: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """The samples between `start_s` and `end_s` (those of the oldest and the newest scrape used).

    Totals and histograms are summed over the reporting pods. A field that no pod reported is None.
    """

    start_s: float
    end_s: float
    longest_gap_s: float
    """Longest span, up to the time of the observation, in which no pod could be scraped."""
    pods_reporting: int
    """Ready pods with a fresh scrape at the end, nothing of which had to be left out."""
    pods_expected: int
    """Ready pods."""
    arrivals: int | None = None
    rejections: int | None = None
    good: int | None = None
    late: int | None = None
    failed: int | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    preemptions: int | None = None
    steps: int | None = None
    queue_time_s: Histogram | None = None
    ttft_s: Histogram | None = None
    itl_s: Histogram | None = None
    e2e_s: Histogram | None = None
    step_budget_used_ratio: Histogram | None = None
    running_per_pod: float | None = None
    """Mean over time and pods of the requests that run."""
    running_peak: float | None = None
    """The most that any pod ran at once, at a scrape."""
    waiting: float | None = None
    """Mean over time of the requests that wait, all pods together."""
    oldest_waiting_age_s: float | None = None
    """At the newest scrape, of the worst pod; 0 where nothing waits."""
    kv_used_ratio: float | None = None
    """Mean over time of the worst pod."""
    mix: Mix | None = None
    """It and `step_work` explain; no rule goes by them. None where no engine gave records."""
    step_work: StepWork | None = None

    @property
    def span_s(self) -> float:
        return max(0.0, self.end_s - self.start_s)


@dataclass(frozen=True, slots=True)
class Scrape:
    """The newest successful scrape of one pod."""

    at_s: float
    limits: Limits | None
    """Active limits by `headrace_limit`; None where the engine has none."""
    in_flight: int | None
    draining: bool | None
    tenants_digest: int | None = None
    """Of the tenants' terms that it holds; None where the engine has none."""
    policy: PolicyName | None = None
    """That it admits requests by; None where it tells none, or one that is not ours to choose."""
    is_implausible: bool = False
    """It held values that no engine can have, which were left out."""


DOWNLOAD_FAILED = "DownloadFailed"
"""The trouble of a pod whose model could not be downloaded: our word, Kubernetes has none."""


@dataclass(frozen=True, slots=True)
class PodObservation:
    """A pod that the service's Deployment owns (by its chain of controller uids, never by labels alone)."""

    name: str
    uid: str
    ip: str | None
    created_s: float
    phase: str
    ready: bool
    deleting: bool
    ready_since_s: float | None = None
    """Last transition of its Ready condition, where it is ready."""
    unready_since_s: float | None = None
    """The same, where it is not ready (any more)."""
    restarts: int = 0
    trouble: str | None = None
    """Why it does not run: Kubernetes' word, such as `Unschedulable`, `ImagePullBackOff`, `OOMKilled`, or
    `Error` for an engine that ended. None where it is well or simply starting."""
    trouble_message: str | None = None
    draining_since_s: float | None = None
    replica_set: str | None = None
    template: str | None = None
    """Digest of the pod template that it was made of."""
    model_commit: str | None = None
    """Of a downloaded model, the commit that it serves."""
    is_left_alone: bool = False
    """Node autoscalers are asked by us to spare it."""
    scrape: Scrape | None = None


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """A HorizontalPodAutoscaler that targets the service, or its Deployment."""

    name: str
    """With its kind, and whose it is."""
    is_of_deployment: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that the API server refused: one word for why, and its own message."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Observation:
    """One consistent view, taken from the store and the windows; building it does no I/O."""

    children: Mapping[str, Mapping[str, Any]]
    """Live objects with the names of our children, by kind (`Deployment`, `Service`, `ConfigMap`,
    `PodDisruptionBudget`), as the API server gave them. A kind that is not there does not exist."""
    previous: Previous
    """What the status said: all that earlier decisions left behind."""
    pods: tuple[PodObservation, ...] = field(default=())
    window: Window | None = None
    """The last `slo.window`: what the SLO is judged by. None before the first scrape."""
    recent: Window | None = None
    """From `recent_start_s` on: the last `tuning.interval`, nothing before a change. The rules go by it."""
    observing_since_s: float | None = None
    """Since when this operator has scraped the service without a break longer than a window."""
    foreign_pods: tuple[str, ...] = ()
    """Pods with the service's label that are not its own: its Service sends them requests all the same."""
    good_template: Mapping[str, Any] | None = None
    """The pod template that every wanted pod was last ready with, where another is being tried or failed."""
    autoscalers: tuple[Autoscaler, ...] | None = ()
    """Of the service or its Deployment. None: they may not be listed."""
    scaled_by: str | None = None
    """The field manager that set the Deployment's replicas through its `/scale` after us."""
    approve: str | None = None
    """What the service's annotation asks for."""
    is_paused: bool = False
    """By the service's annotation."""
    refused: Refused | None = None
    """What became of the plan that was just made of this very observation."""
