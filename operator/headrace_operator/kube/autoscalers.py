"""Who else sets replicas: HorizontalPodAutoscalers (KEDA's ScaledObjects make them too), and field managers.

Pure; it takes anything that an API server may have stored.
"""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import CHILD_FIELD_MANAGER, GROUP, KIND, engine_name

_SUFFIX = engine_name("")


def target_of(autoscaler: Mapping[str, Any]) -> tuple[str, bool] | None:
    """The InferenceService that it scales, and whether by its Deployment; None where it scales none."""
    spec = autoscaler.get("spec")
    target = spec.get("scaleTargetRef") if isinstance(spec, dict) else None
    if not isinstance(target, dict):
        return None
    kind, name, version = (target.get(field) for field in ("kind", "name", "apiVersion"))
    if not isinstance(name, str) or not isinstance(version, str):
        return None
    group = version.rpartition("/")[0]
    if (group, kind) == (GROUP, KIND):
        return name, False
    if (group, kind) == ("apps", "Deployment") and name.endswith(_SUFFIX) and name != _SUFFIX:
        return name.removesuffix(_SUFFIX), True
    return None


def slim_autoscaler(autoscaler: Mapping[str, Any]) -> dict[str, Any]:
    """What is of interest: its name, whose it is and what it scales. The rest changes four times a minute."""
    metadata = autoscaler["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "ownerReferences")
    return {
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"scaleTargetRef": autoscaler["spec"]["scaleTargetRef"]},
    }


def of_scale(managed: Any) -> list[dict[str, Any]]:
    """The entries of `managedFields` by which something set an object's `/scale`."""
    entries = managed if isinstance(managed, list) else []
    return [entry for entry in entries if isinstance(entry, dict) and entry.get("subresource") == "scale"]


def scaled_by(managed: Any) -> str | None:
    """The field manager that set a Deployment's replicas through `/scale` since we did, by its
    `managedFields`; None where the number is ours.
    """
    entries = managed if isinstance(managed, list) else []
    if any(_is_our_number(entry) for entry in entries):
        return None
    managers = (entry.get("manager") for entry in of_scale(managed))
    return next((manager for manager in managers if isinstance(manager, str)), None)


def _is_our_number(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.get("manager") != CHILD_FIELD_MANAGER:
        return False
    fields = entry.get("fieldsV1")
    spec = fields.get("f:spec") if isinstance(fields, dict) else None
    return isinstance(spec, dict) and "f:replicas" in spec
