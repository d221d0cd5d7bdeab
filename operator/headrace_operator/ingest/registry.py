"""The watch handlers: each puts one object into the store, in microseconds, and returns."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import kopf

from headrace_operator.ingest.login import Login
from headrace_operator.kube.kinds import Kind
from headrace_operator.kube.store import Store


def build_registry(*, store: Store, kinds: Sequence[Kind], login: Login) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return await login()

    kopf.on.login(registry=registry)(log_in)
    for kind in kinds:
        kopf.on.event(kind.api_version, kind.plural, registry=registry, id=f"store-{kind.plural}")(
            feeder(store, kind)
        )
    return registry


def feeder(store: Store, kind: Kind) -> Callable[..., Awaitable[None]]:
    """The handler of one kind. A listed object comes with type None."""

    async def feed(*, event: Any, **_: Any) -> None:
        obj = event["object"]
        if event["type"] == "DELETED":
            store.remove(kind, obj)
        else:
            store.put(kind, obj)

    return feed
