"""Where pods of a service go, as parsed: by nodes' labels and taints, by pods that run there, how evenly."""

from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression over labels."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods of the service's namespace, and what counts as one place. Without labels and requirements: the
    service's own pods.
    """

    topology_key: str
    labels: Labels
    requirements: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class PodRules:
    """Where such pods run, or where none does. Weights are 1 to 100."""

    required: tuple[PodTerm, ...] = ()
    preferred: tuple[tuple[int, PodTerm], ...] = ()


@dataclass(frozen=True, slots=True)
class Affinity:
    """What nodes are, and what runs there."""

    required_nodes: tuple[tuple[Requirement, ...], ...] = ()
    """One of these has to hold as a whole."""
    preferred_nodes: tuple[tuple[int, tuple[Requirement, ...]], ...] = ()
    near: PodRules = PodRules()
    apart: PodRules = PodRules()


@dataclass(frozen=True, slots=True)
class Spread:
    """How evenly the service's own pods are to lie over the places."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """As Kubernetes has it."""

    key: str | None
    operator: str
    value: str | None
    effect: str | None
    toleration_seconds: int | None


@dataclass(frozen=True, slots=True)
class Placement:
    """All of it, and the labels that the pods get besides."""

    labels: Labels
    node_selector: Labels
    tolerations: tuple[Toleration, ...]
    priority_class_name: str | None
    affinity: Affinity
    spread: tuple[Spread, ...]
