"""Live children against rendered ones: what to apply, what somebody edited, what is somebody else's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace_operator.api.spec import ServiceSpec
from headrace_operator.decide.plan import Event
from headrace_operator.render.owned import difference, is_drifted, needs_apply


@dataclass(frozen=True, slots=True)
class ChildChanges:
    """Manifests that differ from what lives, with the events of those that somebody edited."""

    objects: tuple[Mapping[str, Any], ...]
    events: tuple[Event, ...]


def foreign_child(spec: ServiceSpec, live: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The kind and name of an object that stands where a child belongs and is not the service's."""
    for kind, child in sorted(live.items()):
        metadata = child.get("metadata") or {}
        owners = metadata.get("ownerReferences") or ()
        if not any(owner.get("controller") and owner.get("uid") == spec.uid for owner in owners):
            return f"{kind} {metadata.get('name')}"
    return None


def changes(live: Mapping[str, Mapping[str, Any]], rendered: Iterable[Mapping[str, Any]]) -> ChildChanges:
    """What to apply, in the order of `rendered`."""
    objects, events = [], []
    for manifest in rendered:
        child = live.get(manifest["kind"])
        if not needs_apply(child, manifest):
            continue
        objects.append(manifest)
        if child is not None and is_drifted(child, manifest):
            what = f"{manifest['kind']} {manifest['metadata']['name']}"
            message = f"{what}: {difference(child, manifest)} was edited and is set back"
            events.append(Event("Normal", "DriftCorrected", message))
    return ChildChanges(tuple(objects), tuple(events))
