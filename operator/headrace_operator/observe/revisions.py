"""The pod template to go back to, as the ReplicaSet of the last good revision keeps it. Pure."""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.rollout_memory import GoodRevision
from headrace_operator.observe.ownership import controller_uid
from headrace_operator.render.pod_template import template_hash

REPLICA_SET_LABEL = "pod-template-hash"
"""Which the Deployment controller adds to the template of each ReplicaSet."""


def kept_template(
    replica_set: Mapping[str, Any], good: GoodRevision, deployment: Mapping[str, Any]
) -> dict[str, Any] | None:
    """None where the ReplicaSet is not the Deployment's own or does not hold what the status says it does:
    a status that somebody forged brings no other pods about.
    """
    template = replica_set["spec"]["template"]
    is_own = controller_uid(replica_set) == deployment["metadata"]["uid"]
    if not is_own or template_hash(template) != good.template:
        return None
    metadata = {name: value for name, value in template["metadata"].items() if value is not None}
    labels = {name: value for name, value in metadata["labels"].items() if name != REPLICA_SET_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}
