"""`spec.network`: who may ask the service. By labels alone: no reference names another namespace."""

from typing import Annotated, ClassVar

from pydantic import Field

from headrace_operator.api.fields import LabelValue, labels_rules
from headrace_operator.api.rules import Part, Rule

Labels = Annotated[dict[str, LabelValue], Field(max_length=16), *labels_rules("network.clients")]


class ClientPart(Part):
    """Pods that may ask the service."""

    RULES: ClassVar = (
        Rule(
            "has(self.namespaceLabels) || has(self.podLabels)",
            "network.clients needs namespaceLabels or podLabels: a client that names neither is everybody",
            lambda part: part.namespace_labels is not None or part.pod_labels is not None,
            ".podLabels",
        ),
    )
    namespace_labels: Labels | None = Field(
        None, description="Labels of their namespaces. Absent: the service's own namespace; {}: every one."
    )
    pod_labels: Labels | None = Field(None, description="Labels of the pods. Absent: every pod.")


class NetworkPart(Part):
    """Who may ask the service."""

    clients: Annotated[list[ClientPart], Field(max_length=16)] = Field(
        default_factory=list,
        description="Pods that reach the serving port, by the service's NetworkPolicy. Empty: everybody who "
        "reaches the cluster's pods. The operator and monitoring reach it always.",
    )
