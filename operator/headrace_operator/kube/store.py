"""What the cluster looked like last: every watched object, fed by watches and by periodic LISTs.

A watch tells of changes but may lose deletions; a LIST is the truth as of its resource version. So an object
is only ever replaced by a newer one, and a LIST prunes what it does not hold, unless that is newer than the
LIST. Services, which are looked through every second, are shared and must not be changed; all else is packed.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from headrace_operator.kube.autoscalers import target_of
from headrace_operator.kube.kinds import (
    AUTOSCALERS,
    INFERENCE_SERVICES,
    PODS,
    SERVICE_LABEL,
    Key,
    Kind,
)
from headrace_operator.kube.packed import Object, PackedObjects
from headrace_operator.kube.slim import slim

TOMBSTONES = 10_000


class Store:
    """`wake` is told the key of the service that a change concerns."""

    def __init__(self, kinds: Iterable[Kind], *, wake: Callable[[Key], None]) -> None:
        self._objects: dict[Kind, MutableMapping[Key, Object]] = {
            kind: {} if kind is INFERENCE_SERVICES else PackedObjects() for kind in kinds
        }
        self._members: dict[Kind, dict[Key, set[Key]]] = {PODS: {}, AUTOSCALERS: {}}
        self._revisions: dict[Key, int] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._wake = wake

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self._objects[kind].get(Key(namespace, name))

    def services(self) -> Iterator[tuple[Key, Object]]:
        return iter(list(self._objects[INFERENCE_SERVICES].items()))

    def pods_of(self, key: Key) -> list[Object]:
        """The pods that bear the service's label. A label proves nothing: see `observe.ownership`."""
        return self._members_of(PODS, key)

    def autoscalers_of(self, key: Key) -> list[Object]:
        """The autoscalers that target the service, or what has the name of its Deployment."""
        return self._members_of(AUTOSCALERS, key)

    def _members_of(self, kind: Kind, key: Key) -> list[Object]:
        objects = self._objects[kind]
        return [objects[name] for name in sorted(self._members[kind].get(key, ()))]

    def revision(self, key: Key) -> int:
        """Another number after each change of the service or of anything of its."""
        return self._revisions.get(key, 0)

    def put(self, kind: Kind, obj: Object) -> None:
        """Take in an object as a watch told it. Anything that is no object of the API is ignored."""
        name = _name(obj)
        if name is None or _uid(obj) in self._deleted or not self._is_news(kind, name, obj):
            return
        if kind is AUTOSCALERS and _service_of(kind, name, obj) is None:
            # It is none of ours, or not any more.
            if name in self._objects[kind]:
                self._drop(kind, name)
            return
        self._keep(kind, name, obj)

    def remove(self, kind: Kind, obj: Object) -> None:
        name = _name(obj)
        if name is None:
            return
        self._bury(obj)
        held = self._objects[kind].get(name)
        if held is not None and _uid(held) == _uid(obj):
            self._drop(kind, name)

    def replace(
        self, kind: Kind, items: Iterable[Object], *, resource_version: str, namespace: str | None = None
    ) -> None:
        """Take in a whole LIST (of one namespace, where given): add, refresh, prune."""
        listed: set[Key] = set()
        for item in items:
            name = _name(item)
            if name is not None:
                listed.add(name)
                self.put(kind, item)
        as_of = _number(resource_version)
        for name, held in list(self._objects[kind].items()):
            if name in listed or (namespace is not None and name.namespace != namespace):
                continue
            known = _version(held)
            if known is None or as_of is None or known <= as_of:
                self._bury(held)
                self._drop(kind, name)

    def wake_services(self, namespace: str | None) -> None:
        """Every service (of one namespace, where given) is to be looked at."""
        for key, _ in self.services():
            if namespace in (None, key.namespace):
                self._wake(key)

    def _is_news(self, kind: Kind, name: Key, obj: Object) -> bool:
        held = self._objects[kind].get(name)
        if held is None:
            return True
        # Versions of one resource grow across its objects, so that this also orders a name's old and new
        # holder.
        told, known = _version(obj), _version(held)
        return told is None or known is None or told > known

    def _keep(self, kind: Kind, name: Key, obj: Object) -> None:
        held = self._objects[kind].get(name)
        if kind in self._members:
            self._index(kind, name, held, obj)
        self._objects[kind][name] = slim(kind, obj)
        if kind is AUTOSCALERS and held is not None and target_of(held) == target_of(obj):
            return
        for key in {_service_of(kind, name, obj), _service_of(kind, name, held)} - {None}:
            self._tell(key)  # type: ignore[arg-type]

    def _drop(self, kind: Kind, name: Key) -> None:
        held = self._objects[kind].pop(name)
        if kind in self._members:
            self._index(kind, name, held, None)
        key = _service_of(kind, name, held)
        if key is not None:
            self._tell(key)

    def _tell(self, key: Key) -> None:
        if key in self._objects[INFERENCE_SERVICES]:
            self._revisions[key] = self.revision(key) + 1
        else:
            self._revisions.pop(key, None)
        self._wake(key)

    def _index(self, kind: Kind, name: Key, before: Object | None, after: Object | None) -> None:
        members = self._members[kind]
        was, now = _service_of(kind, name, before), _service_of(kind, name, after)
        if was is not None and was != now:
            members[was].discard(name)
            if not members[was]:
                del members[was]
        if now is not None:
            members.setdefault(now, set()).add(name)

    def _bury(self, obj: Object) -> None:
        uid = _uid(obj)
        if uid is None:
            return
        self._deleted[uid] = None
        while len(self._deleted) > TOMBSTONES:
            self._deleted.popitem(last=False)


def _metadata(obj: Any) -> Mapping[str, Any]:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _name(obj: Any) -> Key | None:
    metadata = _metadata(obj)
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return Key(namespace, name) if isinstance(namespace, str) and isinstance(name, str) else None


def _uid(obj: Any) -> str | None:
    uid = _metadata(obj).get("uid")
    return uid if isinstance(uid, str) else None


def _version(obj: Object) -> int | None:
    return _number(_metadata(obj).get("resourceVersion"))


def _number(value: Any) -> int | None:
    return (
        int(value)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 40
        else None
    )


def _service_of(kind: Kind, name: Key, obj: Object | None) -> Key | None:
    if obj is None:
        return None
    if kind is INFERENCE_SERVICES:
        return name
    if kind is AUTOSCALERS:
        target = target_of(obj)
        return None if target is None else Key(name.namespace, target[0])
    labels = _metadata(obj).get("labels")
    service = labels.get(SERVICE_LABEL) if isinstance(labels, dict) else None
    return Key(name.namespace, service) if isinstance(service, str) and service else None
