"""What the scheduler goes by and an operator may change while it runs: limits, policy, tenants' terms."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headrace_engine.core.contract import Contract
from headrace_engine.core.limits import Capacity, Limits, LimitsError
from headrace_engine.core.policies import PolicyName


@dataclass(frozen=True, slots=True)
class Rules:
    limits: Limits
    policy: PolicyName = PolicyName.FCFS
    contract: Contract = field(default_factory=Contract)

    def changed(self, changes: dict[str, Any], capacity: Capacity) -> "Rules":
        """These rules with `changes`, all or nothing: limits by name, `scheduling_policy`, `tenants`.

        Raises:
            LimitsError: a name or a value that is not taken.
        """
        rest = dict(changes)
        policy = _policy(rest.pop("scheduling_policy", self.policy))
        contract = self.contract.changed(rest.pop("tenants", {}))
        return replace(self, limits=self.limits.changed(rest, capacity), policy=policy, contract=contract)

    def document(self) -> dict[str, Any]:
        """What is shown of them."""
        return {
            "limits": asdict(self.limits),
            "scheduling_policy": self.policy.value,
            "tenants": asdict(self.contract),
        }


def _policy(name: Any) -> PolicyName:
    try:
        return PolicyName(name)
    except ValueError:
        raise LimitsError("scheduling_policy", f"takes one of {', '.join(PolicyName)}") from None
