"""Objects as the store keeps them: without what nobody reads, which is the larger half of most.

`managedFields` go. Of a pod ours stay, which are few and tell our marks from others'; of a Deployment those
of its scale, where another has set it.
"""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import CHILD_FIELD_MANAGER
from headrace_operator.kube.autoscalers import of_scale, scaled_by, slim_autoscaler
from headrace_operator.kube.kinds import AUTOSCALERS, DEPLOYMENTS, PODS, Kind


def slim(kind: Kind, obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object without the rest; it shares what it keeps."""
    if kind is AUTOSCALERS:
        return slim_autoscaler(obj)
    known = obj.get("metadata") or {}
    metadata = {name: value for name, value in known.items() if name != "managedFields"}
    managed = known.get("managedFields")
    if kind is PODS and isinstance(managed, list):
        metadata["managedFields"] = [
            entry
            for entry in managed
            if isinstance(entry, dict) and entry.get("manager") == CHILD_FIELD_MANAGER
        ]
    if kind is DEPLOYMENTS and scaled_by(managed) is not None:
        metadata["managedFields"] = of_scale(managed)
    return {**obj, "metadata": metadata}
