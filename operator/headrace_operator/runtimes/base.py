"""What the operator must know of an engine to run it: nothing else depends on which engine it is."""

from collections.abc import Mapping
from typing import Any, Protocol

from headrace_operator.api.spec import ServiceSpec


class EngineAdapter(Protocol):
    """One engine. Everything is a value made of the spec; argv is a list, never a shell's text."""

    @property
    def changes_limits_live(self) -> bool:
        """Whether active limits move while the engine runs, or only by replacing pods."""

    def arguments(self, spec: ServiceSpec) -> tuple[str, ...]:
        """What follows the image's entry point. Only what needs a restart stands in it."""

    def environment(self, spec: ServiceSpec) -> tuple[Mapping[str, Any], ...]:
        """EnvVars of the container."""

    def probes(self, spec: ServiceSpec) -> Mapping[str, Mapping[str, Any]]:
        """`startupProbe`, `readinessProbe` and `livenessProbe`."""
