"""Whether a live object is still what we rendered: every field that we own, and none of those others added.

The API server fills in fields and rewrites quantities (`1000m` becomes `1`); neither is a difference.
"""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import RENDERED_HASH_ANNOTATION
from headrace_operator.api.units import quantity

_QUANTITY_PARENTS = frozenset({"requests", "limits"})
_NOT_COMPARED = frozenset({"apiVersion", "kind"})


def difference(live: Any, rendered: Any, path: str = "") -> str | None:
    """The path of the first rendered field that the live object does not hold; None where it holds all."""
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
        if not isinstance(live, list) or len(live) != len(rendered):
            return path
        items = (difference(live[i], value, f"{path}[{i}]") for i, value in enumerate(rendered))
        return next((item for item in items if item is not None), None)
    return None if live == rendered or _same_quantity(live, rendered, path) else path


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
