"""`spec.tenants`: who shares the service, and on which terms. None of it replaces a pod."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from headrace_engine.core.contract import MOST_SHARED
from headrace_operator.api.fields import Duration, Sequences, matching, within
from headrace_operator.api.rules import Part, Rule, of_defaults

TENANT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
KEY_DIGEST_PATTERN = r"^[0-9a-f]{64}$"
MAX_TENANTS, MAX_KEYS = 256, 1024

TenantName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64),
    matching(
        TENANT_PATTERN, "tenants: a name starts with a letter or digit and holds letters, digits, . _ -"
    ),
]


Rate = Annotated[int, Field(ge=1, le=2_147_483_647)]


class TenantLimitsPart(Part):
    """A tenant's limits. What is absent is bounded by the pod's own."""

    max_num_seqs: Sequences | None = Field(
        None, description="Most of the tenant's requests that run at once in a pod."
    )
    max_num_queued_reqs: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Most of the tenant's requests that wait in a pod; more are refused with 429."
    )
    max_num_queued_tokens: Annotated[int, Field(ge=0, le=2_147_483_647)] | None = Field(
        None, description="Most prompt tokens of the tenant that wait in a pod; more are refused with 429."
    )
    requests_per_minute: Rate | None = Field(
        None,
        description="Most requests of the tenant in a minute, all pods together: each ready pod lets an "
        "equal part of them through, and one at least. More are refused with 429.",
    )
    tokens_per_minute: Rate | None = Field(
        None,
        description="Most tokens of the tenant in a minute, prompt and output, all pods together, divided "
        "like requestsPerMinute. A request takes max_tokens, and gives back what it does not generate.",
    )


Priority = Annotated[int, Field(ge=-20, le=19)]


class TenantSloPart(Part):
    """Times of a tenant, in place of the service's. The SLO is judged by the service's all the same."""

    ttft: Annotated[Duration, within("1ms", "1h", "tenants: slo.ttft")] | None = Field(
        None,
        description="When the tenant wants first tokens: requests that can still make it are ordered by it.",
    )
    queue_deadline: Annotated[Duration, within("1ms", "1h", "tenants: slo.queueDeadline")] | None = Field(
        None, description="Longest time that the tenant's requests wait; then they are refused with 429."
    )


class TermsPart(Part):
    """What a tenant is given."""

    RULES: ClassVar = (
        Rule(
            "!has(self.bestPriority) || self.bestPriority <= self.priority",
            "tenants: bestPriority must not be above priority: the lowest is served first",
            lambda part: part.best_priority is None or part.best_priority <= part.priority,
            ".bestPriority",
        ),
    )
    weight: Annotated[int, Field(ge=1, le=1000)] = Field(
        1, description="Share of the service, in proportion to the weights of the others that ask for it."
    )
    priority: Priority = Field(
        0,
        description="Class of the tenant's requests that name none, from -20 to 19: the lowest is served "
        "first, and others after a while all the same.",
    )
    best_priority: Priority | None = Field(
        None, description="Lowest class that its requests may name. Absent: they may only stand back."
    )
    slo: TenantSloPart = of_defaults(TenantSloPart, "The tenant's own times.")
    limits: TenantLimitsPart = of_defaults(TenantLimitsPart, "The tenant's own limits.")


Share = Annotated[str, StringConstraints(pattern=r"^(0(\.[0-9]{1,4})?|1(\.0{1,4})?)$", max_length=6)]


class TenantPart(TermsPart):
    """A tenant with terms of its own."""

    name: TenantName = Field(description="Name of the tenant.")
    min_share: Share = Field(
        "0.0",
        description="Least part of the tokens that each pod computes while the tenant waits there, whatever "
        "class or weight others have.",
    )


def _distinct(items: list[TenantPart]) -> list[TenantPart]:
    """The API server sees to it too: the list is a map by name."""
    names = [item.name for item in items]
    if len(names) > len(set(names)):
        raise PydanticCustomError("duplicate", "a name stands there twice")
    return items


class TenantsPart(Part):
    """Who shares the service, and on which terms."""

    RULES: ClassVar = (
        Rule(
            "has(self.keys) && size(self.keys) > 0 || !has(self.items) || size(self.items) == 0",
            "tenants.items needs tenants.keys: without a key nobody is told apart",
            lambda part: bool(part.keys) or not part.items,
            ".items",
        ),
        Rule(
            f"!has(self.items) || self.items.map(t, double(t.minShare)).sum() <= {MOST_SHARED}",
            "tenants.items: all minShare together must not be above 1",
            lambda part: sum(float(item.min_share) for item in part.items) <= MOST_SHARED,
            ".items",
        ),
    )
    identity: Literal["APIKey"] = Field(
        "APIKey", description="APIKey: the bearer token of a request says which tenant sends it."
    )
    keys: Annotated[
        dict[str, TenantName],
        Field(max_length=MAX_KEYS),
        Rule(
            f"self.all(k, k.matches('{KEY_DIGEST_PATTERN}'))",
            "tenants.keys: a key is not the SHA-256 digest of an API key: 64 lower-case hexadecimal digits",
            lambda keys: all(matching(KEY_DIGEST_PATTERN, "").holds(key) for key in keys),
        ),
    ] = Field(
        default_factory=dict,
        description="Tenants by the SHA-256 digest of an API key (printf %s KEY | sha256sum). Where there is "
        "one, a request without a known key is refused with 401; empty: everybody is served as one tenant.",
    )
    default: TermsPart = of_defaults(TermsPart, "Terms of tenants that have none of their own.")
    items: Annotated[
        list[TenantPart],
        Field(
            max_length=MAX_TENANTS,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
        AfterValidator(_distinct),
    ] = Field(default_factory=list, description="Tenants with terms of their own.")
