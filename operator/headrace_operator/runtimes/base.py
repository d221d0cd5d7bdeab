"""What the operator must know of an engine to run it: nothing else depends on which engine it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from headrace_operator.api.spec import ServiceSpec
from headrace_operator.runtimes.metric_map import MetricMap


@dataclass(frozen=True, slots=True)
class Fetch:
    """A container that runs to its end before the engine's starts."""

    arguments: tuple[str, ...]
    environment: tuple[Mapping[str, Any], ...]


class EngineAdapter(Protocol):
    """One engine. Everything is a value made of the spec; argv is a list, never a shell's text."""

    @property
    def changes_limits_live(self) -> bool:
        """Whether active limits move while the engine runs, or only by replacing pods."""

    @property
    def drains_by_call(self) -> bool:
        """Whether it stops taking requests when told to. Otherwise it does when its pod is deleted."""

    @property
    def metrics(self) -> MetricMap:
        """Which of its series mean what."""

    @property
    def command(self) -> tuple[str, ...]:
        """What is run; empty: the image's entry point."""

    def arguments(self, spec: ServiceSpec) -> tuple[str, ...]:
        """What follows the command. Only what needs a restart stands in it; flags that the user added come
        before those that must win.
        """

    def environment(self, spec: ServiceSpec) -> tuple[Mapping[str, Any], ...]:
        """EnvVars of the container."""

    def fetch(self, spec: ServiceSpec) -> Fetch | None:
        """What downloads the model before the engine starts; None where nothing is to be downloaded, or where
        the engine does it by itself.
        """

    def probes(self, spec: ServiceSpec) -> Mapping[str, Mapping[str, Any]]:
        """`startupProbe`, `readinessProbe` and `livenessProbe`."""
