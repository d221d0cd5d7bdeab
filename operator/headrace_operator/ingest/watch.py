"""Runs kopf inside our loop until it is told to stop. If it ends earlier, so does the process.

kopf cancels, when it exits, every task that was started after it, and takes over the signal handlers when it
starts: so it is started last, stopped last, and `on_started` puts the handlers back.
"""

import asyncio
from collections.abc import Callable, Sequence

import kopf

from headrace_operator.ingest.login import Login
from headrace_operator.ingest.registry import build_registry
from headrace_operator.ingest.settings import configure
from headrace_operator.kube.kinds import Kind
from headrace_operator.kube.store import Store


class WatchEndedError(Exception):
    """The watches ended though nobody stopped them: crash, and let the kubelet start us afresh."""


async def watch(
    *,
    store: Store,
    kinds: Sequence[Kind],
    namespaces: Sequence[str],
    login: Login,
    stop: asyncio.Event,
    on_started: Callable[[], None],
) -> None:
    """Feed the store until `stop` is set. Raises `WatchEndedError`, or whatever kopf died of."""
    settings = kopf.OperatorSettings()
    configure(settings, kinds)
    ready = asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(
            registry=build_registry(store=store, kinds=kinds, login=login),
            settings=settings,
            standalone=True,
            # Otherwise kopf asks for the user's name, and the image has none: pods run as a bare uid.
            identity="headrace",
            clusterwide=not namespaces,
            namespaces=list(namespaces),
            stop_flag=stop,
            ready_flag=ready,
        ),
        name="kopf",
    )
    started = asyncio.create_task(ready.wait(), name="kopf-ready")
    await asyncio.wait({operator, started}, return_when=asyncio.FIRST_COMPLETED)
    if started.done():
        on_started()
    started.cancel()
    await operator
    if not stop.is_set():
        raise WatchEndedError("the watches ended by themselves")
