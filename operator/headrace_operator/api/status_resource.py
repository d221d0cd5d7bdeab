"""The status as the CRD describes it: what the operator writes and `kubectl explain infs.status` prints.

The API server prunes what is not described here, so a written document must validate against these models
with no field left over; a test holds the two together.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from headrace_operator.api.rules import Part

MAX_HISTORY = 10
MAX_INPUTS, MAX_ALTERNATIVES = 24, 12
MAX_COMMITS = 8
MAX_LEVELS = 8
MAX_MESSAGE_LENGTH = 1024

Word = Annotated[str, StringConstraints(max_length=63)]
Text = Annotated[str, StringConstraints(max_length=MAX_MESSAGE_LENGTH)]
Number = Annotated[str, StringConstraints(max_length=32)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Tally = Annotated[int, Field(ge=0, le=2**53)]
Time = Annotated[str, StringConstraints(max_length=32), Field(json_schema_extra={"format": "date-time"})]


class LimitsStatus(Part):
    """The scheduler limits that engines run with now."""

    max_num_seqs: Count = Field(description="Sequences that run at once in a pod.")
    max_num_batched_tokens: Annotated[int, Field(ge=0, le=4_194_304)] = Field(
        description="Tokens that a step computes."
    )
    source: Literal["Spec", "Tuned"] = Field(
        description="Spec: those of engine.limits. Tuned: moved by Headrace."
    )
    since: Time = Field(description="When they were last changed.")


class MixStatus(Part):
    """The requests that engines answered to their end, from their own records: a sample of all."""

    at: Time | None = Field(None, description="When the newest of them ended.")
    requests: Tally | None = Field(None, description="Requests in the sample.")
    prompt_tokens_p50: Tally | None = Field(
        None, alias="promptTokensP50", description="Median length of a prompt."
    )
    prompt_tokens_p95: Tally | None = Field(
        None, alias="promptTokensP95", description="95th percentile of the length of a prompt."
    )
    output_tokens_p50: Tally | None = Field(
        None, alias="outputTokensP50", description="Median length of an answer."
    )
    output_tokens_p95: Tally | None = Field(
        None, alias="outputTokensP95", description="95th percentile of the length of an answer."
    )
    cached_share: Number | None = Field(
        None, description="Share of the prompt tokens that were found in the prefix cache."
    )


class StepsStatus(Part):
    """The steps that engines computed, from their own records: a sample of all."""

    at: Time | None = Field(None, description="When the newest of them ended.")
    steps: Tally | None = Field(None, description="Steps in the sample.")
    duration_p50: Number | None = Field(None, alias="durationP50", description="Median duration of a step.")
    duration_p95: Number | None = Field(
        None, alias="durationP95", description="95th percentile of the duration of a step."
    )
    tokens_p95: Tally | None = Field(
        None, alias="tokensP95", description="95th percentile of the tokens that a step computed."
    )


class ObservedStatus(Part):
    """One window of measurements over all pods."""

    at: Time = Field(description="Time of the newest sample.")
    window: Number = Field(description="Span of time that the samples cover.")
    pods_reporting: Number = Field(description="Pods that answered, of the ready ones.")
    requests_per_second: Number | None = Field(
        None, description="Requests that arrived, refused ones included."
    )
    tokens_per_second: Number | None = Field(None, description="Prompt and generated tokens.")
    queue_time_p95: Number | None = Field(
        None, description="95th percentile of the time to the first scheduling."
    )
    ttft_p95: Number | None = Field(None, description="95th percentile of the time to the first token.")
    itl_p95: Number | None = Field(None, description="95th percentile of the time between tokens.")
    e2e_p95: Number | None = Field(
        None, alias="e2eP95", description="95th percentile of the time to the last token."
    )
    attainment: Number | None = Field(
        None, description="Share of the finished requests that met every target."
    )
    finished: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        None, description="Requests that ended in the window."
    )
    running_per_pod: Number | None = Field(
        None, description="Requests that run at once in a pod, in the mean."
    )
    waiting: Number | None = Field(None, description="Requests that wait, in the mean.")
    kv_usage: Number | None = Field(None, description="Share of the KV cache in use.")
    preemptions_per_minute: Number | None = Field(None, description="Requests that lost their KV blocks.")
    mix: MixStatus | None = Field(None, description="What requests there were; absent without records.")
    steps: StepsStatus | None = Field(None, description="What steps there were; absent without records.")


class ModelStatus(Part):
    """What a downloaded model came to."""

    commits: Annotated[
        list[Annotated[str, StringConstraints(max_length=40)]], Field(max_length=MAX_COMMITS)
    ] = Field(description="Commits that ready pods serve. More than one: a branch changed between two pods.")


class SloStatus(Part):
    """How the service stands to its SLO."""

    key: Number = Field(description="The targets that `since` is about.")
    since: Time = Field(description="When the targets were last changed.")
    targets: Annotated[str, StringConstraints(max_length=256)] | None = Field(
        None, description="All of the SLO, that SLOFeasible is about."
    )
    binding_target: Literal["ttft", "itl", "e2e", "queue"] | None = Field(
        None, description="The target that is nearest to being missed, or furthest missed."
    )


class EnoughStatus(Part):
    """That fewer replicas would do."""

    replicas: Count = Field(description="So many.")
    since: Time = Field(description="Since when they have been enough without a break.")


class PressureStatus(Part):
    """Since when load and capacity have not matched; how long it lasts decides."""

    overloaded_since: Time | None = Field(None, description="Since when the service needs more.")
    enough: Annotated[list[EnoughStatus], Field(max_length=MAX_LEVELS)] | None = Field(
        None, description="How few replicas would do, and since when. Most first."
    )
    scaled_down_at: Time | None = Field(None, description="When replicas were last removed.")


class SettingStatus(Part):
    """Replicas and limits together."""

    replicas: Count = Field(description="Replicas.")
    max_num_seqs: Count = Field(description="Sequences that run at once in a pod.")
    max_num_batched_tokens: Annotated[int, Field(ge=0, le=4_194_304)] = Field(
        description="Tokens that a step computes."
    )


class InputStatus(Part):
    """A number that a decision was taken on."""

    name: Word = Field(description="What was measured.")
    value: Number = Field(description="Its value.")
    target: Number | None = Field(None, description="What it is held against.")


class AlternativeStatus(Part):
    """What was considered and not done."""

    action: Word = Field(description="The action.")
    rejected: Word = Field(description="Why not, in one word.")
    message: Text = Field(description="Why not, with numbers.")


class DecisionStatus(Part):
    """The decision in force."""

    id: Word = Field(description="Names this decision in events and history.")
    at: Time = Field(description="Since when it has been in force.")
    action: Word = Field(description="What is done.")
    reason: Word = Field(description="Why, in one word.")
    message: Text = Field(description="Why, with numbers.")
    applied: bool = Field(description="False where it is only recommended.")
    before: SettingStatus = Field(description="What it starts from.")
    after: SettingStatus = Field(description="What it leads to.")
    limited_by: Word | None = Field(
        None, description="Field of the spec that keeps it from going further, or from being done at all."
    )
    inputs: Annotated[list[InputStatus], Field(max_length=MAX_INPUTS)] = Field(
        default_factory=list, description="What was measured."
    )
    alternatives: Annotated[list[AlternativeStatus], Field(max_length=MAX_ALTERNATIVES)] = Field(
        default_factory=list, description="What was considered and not done."
    )


class RecommendationStatus(Part):
    """What Headrace would do if it were allowed to."""

    id: Word | None = Field(
        None, description="What annotation headrace.dev/approve is to say for it to be done, once."
    )
    at: Time | None = Field(None, description="Since when it has said the same.")
    action: Word = Field(description="What would be done.")
    reason: Word = Field(description="Why, in one word.")
    message: Text = Field(description="Why, with numbers.")
    after: SettingStatus = Field(description="What it would lead to.")
    limited_by: Word | None = Field(
        None, description="Field of the spec that keeps it from going further, or from being done at all."
    )


class ApprovalStatus(Part):
    """The answer to annotation headrace.dev/approve, for as long as that stands."""

    value: Text = Field(description="What it says.")
    outcome: Literal["Applied", "Refused"] = Field(description="What became of it; it counts once.")
    message: Text = Field(description="Why.")


class ChangeStatus(Part):
    """One applied change."""

    id: Word = Field(description="The decision.")
    at: Time = Field(description="When it was applied.")
    action: Word = Field(description="What was done.")
    reason: Word = Field(description="Why, in one word.")
    message: Text = Field(description="Why, with numbers.")
    before: SettingStatus = Field(description="What it started from.")
    after: SettingStatus = Field(description="What it led to.")
    generation: Annotated[int, Field(ge=0, le=2**53)] = Field(
        description="Generation of the spec it was taken for."
    )
    attainment: Number | None = Field(None, description="Attainment when it was taken.")
    requests_per_second: Number | None = Field(None, description="Arrivals when it was taken.")
    tokens_per_second: Number | None = Field(None, description="Tokens when it was taken.")
    outcome: Literal["Kept", "RolledBack"] | None = Field(
        None, description="How a change of limits was judged."
    )
    inputs: Annotated[list[InputStatus], Field(max_length=MAX_INPUTS)] | None = Field(
        None, description="What was measured when it was taken."
    )
    alternatives: Annotated[list[AlternativeStatus], Field(max_length=MAX_ALTERNATIVES)] | None = Field(
        None, description="What was considered instead, and why it was not done."
    )
    approved: bool | None = Field(None, description="True where a person approved what was recommended.")


class GoodRevisionStatus(Part):
    """The pod template under which every wanted pod was ready last."""

    template: Word = Field(description="Digest of the template.")
    replica_set: Annotated[str, StringConstraints(max_length=253)] = Field(
        description="The ReplicaSet that keeps it."
    )
    max_num_seqs: Count = Field(description="Most sequences that its engines can run at once.")
    max_num_batched_tokens: Annotated[int, Field(ge=0, le=4_194_304)] = Field(
        description="Most tokens that a step of its engines can compute."
    )


class FailedRevisionStatus(Part):
    """Why pods are not made of the template that the spec asks for."""

    at: Time = Field(description="When it was given up.")
    reason: Word = Field(description="Why, in one word.")
    message: Text = Field(description="Why, in the engine's own words.")


class RolloutStatus(Part):
    """What pods are made of."""

    template: Word = Field(description="Digest of the pod template that the spec asks for.")
    since: Time = Field(description="Since when the spec has asked for it.")
    good: GoodRevisionStatus | None = Field(None, description="The last one that was well.")
    lacks_gpu_since: Time | None = Field(
        None,
        alias="lacksGPUSince",
        description="Since when a pod of a rollout has found no GPU, and none of the service is about to go.",
    )
    failed: FailedRevisionStatus | None = Field(
        None, description="Set after a rollback: it is not tried again until the spec asks for another."
    )


class ConditionStatus(Part):
    """A condition, in the form that all of Kubernetes uses."""

    type: Word = Field(description="What it is about.")
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        description="Why, in one word."
    )
    message: Text = Field(description="Why, in a sentence.")
    last_transition_time: Time = Field(description="When status last changed.")
    observed_generation: Annotated[int, Field(ge=0, le=2**53)] = Field(
        description="Generation of the spec it was found for."
    )


class SummaryStatus(Part):
    """What `kubectl get infs` prints."""

    ready: Number = Field(description="Ready pods of the wanted ones.")
    limits: Number = Field(description="maxNumSeqs and maxNumBatchedTokens.")


class StatusPart(Part):
    """What is."""

    observed_generation: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        None, description="Generation of the spec that this status is about."
    )
    replicas: Count | None = Field(None, description="Pods that exist.")
    ready_replicas: Count | None = Field(None, description="Pods that serve.")
    desired_replicas: Count | None = Field(None, description="Pods that there are to be.")
    selector: Annotated[str, StringConstraints(max_length=256)] | None = Field(
        None, description="Label selector of the pods."
    )
    url: Annotated[str, StringConstraints(max_length=256)] | None = Field(
        None, description="Base URL of the OpenAI API inside the cluster."
    )
    model: ModelStatus | None = Field(None, description="What a downloaded model came to.")
    summary: SummaryStatus | None = Field(None, description="What `kubectl get infs` prints.")
    active_limits: LimitsStatus | None = Field(None, description="Limits that engines run with now.")
    observed: ObservedStatus | None = Field(None, description="One window of measurements.")
    slo: SloStatus | None = Field(None, description="How the service stands to its SLO.")
    pressure: PressureStatus | None = Field(None, description="Since when load and capacity do not match.")
    decision: DecisionStatus | None = Field(None, description="The decision in force.")
    recommendation: RecommendationStatus | None = Field(
        None, description="What would be done with mode Auto; only where a mode is Recommend."
    )
    approval: ApprovalStatus | None = Field(None, description="What became of the last approval.")
    history: Annotated[list[ChangeStatus], Field(max_length=MAX_HISTORY)] | None = Field(
        None, description="The last applied changes, newest first."
    )
    rollout: RolloutStatus | None = Field(None, description="What pods are made of.")
    conditions: (
        Annotated[
            list[ConditionStatus],
            Field(
                max_length=16,
                json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
            ),
        ]
        | None
    ) = Field(None, description="Ready, and why not.")
