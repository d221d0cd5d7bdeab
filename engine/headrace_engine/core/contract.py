"""What tenants are given: shares of the engine, and limits of their own within the engine's.

Rates are those of the whole service: each of its replicas lets its part of them through.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from headrace_engine.core.limits import LimitsError
from headrace_engine.core.priority import BEST_PRIORITY, WORST_PRIORITY

MAX_TENANTS = 4096
MAX_NAME_LENGTH = 64
MOST_REPLICAS = 1_000
MOST_SHARED = 1 + 1e-6
"""What all shares come to at most, as floats add up."""
_LEAST = {
    "max_num_seqs": 1,
    "max_num_queued_reqs": 0,
    "max_num_queued_tokens": 0,
    "requests_per_minute": 1,
    "tokens_per_minute": 1,
    "queue_deadline_ms": 1,
    "ttft_ms": 1,
}
"""Of the terms that bound something."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What one tenant is given. None is no limit but the engine's."""

    weight: float = 1.0
    """Its share relative to the others', under a policy that shares."""
    max_num_seqs: int | None = None
    """Most of its requests running together."""
    max_num_queued_reqs: int | None = None
    max_num_queued_tokens: int | None = None
    priority: int = 0
    """The class of its requests that name none."""
    best_priority: int | None = None
    """The best class that its requests may name; None is `priority`: they may only stand back."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Prompt and output; what these two mean exactly, `rates` says."""
    queue_deadline_ms: int | None = None
    """Longest time that its requests wait before they are first scheduled; None is the engine's own."""
    ttft_ms: int | None = None
    """When it wants first tokens: a matter of order alone. None is the engine's own."""
    min_share: float = 0.0
    """Of the tokens that the engine computes while the tenant waits, whoever goes before it (`shares`)."""

    @property
    def has_rates(self) -> bool:
        return self.requests_per_minute is not None or self.tokens_per_minute is not None

    @property
    def best_class(self) -> int:
        """The least `priority` that is taken from a request."""
        return self.priority if self.best_priority is None else self.best_priority

    def changed(self, changes: Any, name: str) -> "Terms":
        """These terms with `changes`, all or nothing; `name` is what an error calls them.

        Raises:
            LimitsError: an unknown name or a value that is not taken.
        """
        known = {entry.name for entry in fields(self)}
        if not isinstance(changes, Mapping):
            raise LimitsError(name, "takes an object")
        for key in changes:
            if key not in known:
                raise LimitsError(f"{name}.{key}", f"is no term; the terms are {', '.join(sorted(known))}")
        changed = replace(self, **changes)
        if not _is_number(changed.weight) or not 0.001 <= changed.weight <= 1000:
            raise LimitsError(f"{name}.weight", "takes a number from 0.001 to 1000")
        if not _is_number(changed.min_share) or not 0 <= changed.min_share <= 1:
            raise LimitsError(f"{name}.min_share", "takes a number from 0 to 1")
        for key, least in _LEAST.items():
            value = getattr(changed, key)
            if value is not None and not _is_integer(value, least, 2**31 - 1):
                raise LimitsError(f"{name}.{key}", f"takes an integer from {least} on, or null for no limit")
        if not _is_integer(changed.priority, BEST_PRIORITY, WORST_PRIORITY):
            raise LimitsError(
                f"{name}.priority", f"takes an integer from {BEST_PRIORITY} to {WORST_PRIORITY}"
            )
        if not _is_integer(changed.best_class, BEST_PRIORITY, changed.priority):
            raise LimitsError(
                f"{name}.best_priority",
                f"takes an integer from {BEST_PRIORITY} to its priority, {changed.priority}, or null",
            )
        return changed


@dataclass(frozen=True, slots=True)
class Contract:
    """The terms of those tenants that have some, and of everybody else."""

    items: Mapping[str, Terms] = field(default_factory=dict)
    default: Terms = Terms()
    replicas: int = 1
    """How many engines serve the same tenants, this one among them: each lets that part of a rate through."""

    @property
    def digest(self) -> int:
        """Equal where all terms are: 48 bits, which a gauge holds exactly. A term that nobody sets is not in
        it, so that versions which know different terms agree on the rest.
        """
        terms = {
            "default": _set_values(self.default),
            **{f"={name}": _set_values(own) for name, own in self.items.items()},
        }
        text = json.dumps([terms, self.replicas], sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])

    def of(self, tenant: str) -> Terms:
        """What this tenant is given."""
        return self.items.get(tenant, self.default)

    @property
    def shares(self) -> dict[str, float]:
        """Of those tenants that have one."""
        return {tenant: terms.min_share for tenant, terms in self.items.items() if terms.min_share}

    def part_of(self, rate: int) -> float:
        """What this engine lets through of a rate; never less than one, so that nobody is shut out."""
        return max(1.0, rate / self.replicas)

    def changed(self, changes: Any) -> "Contract":
        """This contract with `changes`: `{"default": {...}, "items": {NAME: {...} or null}, "replicas": 2}`.

        Terms left out stay; null removes a tenant's, which then has the default's.

        Raises:
            LimitsError: something in it is not taken; nothing is changed.
        """
        if not isinstance(changes, Mapping) or not isinstance(changes.get("items", {}), Mapping):
            raise LimitsError("tenants", "takes an object with default, items and replicas")
        for key in changes.keys() - {"default", "items", "replicas"}:
            raise LimitsError(f"tenants.{key}", "is unknown; tenants takes default, items and replicas")
        replicas = changes.get("replicas", self.replicas)
        if not _is_integer(replicas, 1, MOST_REPLICAS):
            raise LimitsError("tenants.replicas", f"takes an integer from 1 to {MOST_REPLICAS}")
        default = self.default.changed(changes.get("default", {}), "tenants.default")
        items = dict(self.items)
        for tenant, terms in changes.get("items", {}).items():
            name = f"tenants.items.{tenant}"
            if not 0 < len(tenant) <= MAX_NAME_LENGTH:
                raise LimitsError("tenants.items", f"takes names of 1 to {MAX_NAME_LENGTH} characters")
            if terms is None:
                items.pop(tenant, None)
            else:
                items[tenant] = items.get(tenant, default).changed(terms, name)
        if len(items) > MAX_TENANTS:
            raise LimitsError("tenants.items", f"takes at most {MAX_TENANTS} tenants")
        if default.min_share:
            raise LimitsError("tenants.default.min_share", "is 0: a share is that of one tenant")
        if sum(terms.min_share for terms in items.values()) > MOST_SHARED:
            raise LimitsError("tenants.items.min_share", "takes shares that are 1 together, or less")
        return Contract(items, default, replicas)


def _is_integer(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _set_values(terms: Terms) -> dict[str, float]:
    values = {entry.name: (getattr(terms, entry.name), entry.default) for entry in fields(terms)}
    return {name: float(value) for name, (value, default) in values.items() if value != default}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
