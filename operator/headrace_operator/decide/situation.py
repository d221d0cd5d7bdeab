"""All that the rules look at, worked out once: setting in force, pods, load or why it is not known."""

from dataclasses import dataclass

from headrace_operator.api.spec import ServiceSpec
from headrace_operator.api.status import Enough, Previous, Setting
from headrace_operator.decide.conflict import Conflict
from headrace_operator.decide.load import Load
from headrace_operator.decide.supply import Supply
from headrace_operator.decide.trust import Blindness


@dataclass(frozen=True, slots=True)
class Situation:
    """Times are Unix seconds, whole ones: the status keeps no fractions."""

    spec: ServiceSpec
    now_s: float
    previous: Previous
    setting: Setting
    """In force: what the status said, inside what the spec allows today."""
    supply: Supply
    load: Load | None
    blindness: Blindness | None
    """Why there is no load to go by; exactly one of the two is None."""
    sees_all_pods: bool
    """Every ready pod reports, and has been watched for a whole SLO window."""
    overloaded_since_s: float | None
    conflict: Conflict | None = None
    enough: tuple[Enough, ...] = ()
    """How few replicas would do, and since when."""

    @property
    def replicas(self) -> int:
        return self.setting.replicas
