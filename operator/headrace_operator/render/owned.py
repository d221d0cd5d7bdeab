"""Whether a live object is still what we rendered: every field that we own, and none of those others added.

The API server fills in fields, drops empty texts and lists, and rewrites quantities (`1000m` becomes `1`);
none of that is a difference. Nor is an item that somebody added to a list which server-side apply merges by
key: applying leaves it there, so that it would be applied for ever. Other lists are compared as wholes.
"""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import RENDERED_HASH_ANNOTATION
from headrace_operator.api.units import quantity

_QUANTITY_PARENTS = frozenset({"requests", "limits"})
_NOT_COMPARED = frozenset({"apiVersion", "kind"})
_MERGE_KEYS = {
    "ownerReferences": ("uid",),
    "containers": ("name",),
    "initContainers": ("name",),
    "imagePullSecrets": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    # Of a container and of a Service: the first key that an item has.
    "ports": ("containerPort", "port"),
}
"""List fields that server-side apply merges, with the key that tells their items apart."""


def difference(live: Any, rendered: Any, path: str = "") -> str | None:
    """The path of the first rendered field that the live object does not hold; None where it holds all."""
    if live is None and rendered in ("", []):
        return None
    if isinstance(rendered, Mapping):
        if not isinstance(live, Mapping):
            return path
        fields = (
            difference(live.get(name), value, f"{path}.{name}".lstrip("."))
            for name, value in rendered.items()
            if path or name not in _NOT_COMPARED
        )
        return next((field for field in fields if field is not None), None)
    if isinstance(rendered, list):
        return _list_difference(live, rendered, path)
    return None if live == rendered or _same_quantity(live, rendered, path) else path


def _list_difference(live: Any, rendered: list[Any], path: str) -> str | None:
    keys = _merge_keys(path)
    if not isinstance(live, list) or (keys is None and len(live) != len(rendered)):
        return path
    for i, value in enumerate(rendered):
        counterpart = live[i] if keys is None else _counterpart(live, value, keys)
        found = difference(counterpart, value, f"{path}[{i}]")
        if found is not None:
            return found
    return None


def _merge_keys(path: str) -> tuple[str, ...] | None:
    """None for a list that server-side apply replaces as a whole, as all of a NetworkPolicy are."""
    is_network_rule = path.startswith(("spec.ingress[", "spec.egress["))
    return None if is_network_rule else _MERGE_KEYS.get(path.rpartition(".")[2])


def _counterpart(live: list[Any], rendered: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """The live item that is the rendered one; None where it is gone. Ports differ by protocol too."""
    names = (next(key for key in keys if key in rendered), "protocol")
    return next((item for item in live if all(item.get(name) == rendered.get(name) for name in names)), None)


def _same_quantity(live: Any, rendered: Any, path: str) -> bool:
    parent, _, name = path.rpartition(".")
    if name != "sizeLimit" and parent.rpartition(".")[2] not in _QUANTITY_PARENTS:
        return False
    one, other = quantity(str(live)), quantity(str(rendered))
    return one is not None and one == other


def rendered_hash(manifest: Mapping[str, Any]) -> str | None:
    """The digest that a live or rendered object carries."""
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    digest: str | None = annotations.get(RENDERED_HASH_ANNOTATION)
    return digest


def needs_apply(live: Mapping[str, Any] | None, rendered: Mapping[str, Any]) -> bool:
    """Whether the object is missing, was rendered otherwise, or was edited by somebody else."""
    return live is None or rendered_hash(live) != rendered_hash(rendered) or is_drifted(live, rendered)


def is_drifted(live: Mapping[str, Any], rendered: Mapping[str, Any]) -> bool:
    """Whether somebody edited what we rendered."""
    return rendered_hash(live) == rendered_hash(rendered) and difference(live, rendered) is not None
