"""The process: puts the parts together, starts them in order, stops them in the reverse one.

Everything of ours starts before the watches, because kopf cancels on its exit whatever started after it. Any
part that ends by itself ends the process (exit 1): a fresh start is the one recovery that is always right.
Stopping: no new work, finish what is under way, give the lease up, then the watches, then the connections.
"""

import asyncio
import logging
import secrets
import signal
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from headrace_operator.config import OperatorConfig
from headrace_operator.decide.settings import Settings
from headrace_operator.ingest.watch import watch
from headrace_operator.kube.auth import Credentials, credentials_of, load_configuration
from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.elector import Elector, Leadership
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.kinds import WATCHED
from headrace_operator.kube.relist import Relister
from headrace_operator.kube.store import Store
from headrace_operator.observe.admin import AdminClient, Signer
from headrace_operator.observe.collector import Collector
from headrace_operator.observe.ownership import PodOwnership
from headrace_operator.observe.scraper import Scraper
from headrace_operator.run.act import Actor
from headrace_operator.run.health import Health
from headrace_operator.run.http import build_app, serve
from headrace_operator.run.metrics import OperatorMetrics
from headrace_operator.run.queue import WorkQueue
from headrace_operator.run.reconcile import Reconciler
from headrace_operator.run.workers import Workers

logger = logging.getLogger(__name__)

DRAIN_S = 10.0
clock = time.monotonic
wall_clock = time.time


@dataclass(slots=True)
class Supervisor:
    """The parts that run for ever, by name. The first that ends ends all."""

    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        self.tasks[name] = asyncio.create_task(part, name=name)

    def handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)

    async def wait(self) -> bool:
        """Until told to stop (True), or until a part ended by itself (False), which is logged."""
        told = asyncio.create_task(self.stop.wait(), name="stop")
        await asyncio.wait({told, *self.tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        for name, task in self.tasks.items():
            if task.done() and not task.cancelled():
                logger.critical("%s ended by itself", name, exc_info=task.exception())
        return not any(task.done() for task in self.tasks.values())

    async def end(self, *names: str, within_s: float) -> None:
        """Let the named parts end by themselves, then cancel them."""
        tasks = [self.tasks.pop(name) for name in names]
        _, late = await asyncio.wait(tasks, timeout=within_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def main(config: OperatorConfig) -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
    signer = Signer.load(config.admin_key_file) if config.admin_key_file else None
    configuration = await load_configuration(config.kubeconfig)
    settings = Settings(
        engine_image=config.engine_image,
        admin_keys=signer.public_keys() if signer else '{"keys": []}',
        scrape_interval_s=config.scrape_interval_s,
    )
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry)
    me = f"{config.pod_name}_{secrets.token_hex(4)}"
    queue, leadership = WorkQueue(clock=clock), Leadership(clock)
    store = Store(WATCHED, wake=queue.add)

    async with AsyncExitStack() as stack:
        client = KubeClient(configuration, observe=metrics.requested)
        stack.push_async_callback(client.close)
        scraper = await stack.enter_async_context(Scraper())
        admin = (
            await stack.enter_async_context(AdminClient(signer=signer, wall_clock=wall_clock))
            if signer
            else None
        )
        ownership = PodOwnership(client)
        collector = Collector(
            store=store,
            scraper=scraper,
            ownership=ownership,
            interval_s=config.scrape_interval_s,
            wall_clock=wall_clock,
            is_leader=leadership.valid,
            count=metrics.scraped,
        )
        actor = Actor(
            client=client,
            store=store,
            leadership=leadership,
            recorder=EventRecorder(client, instance=me, clock=clock),
            admin=admin,
            count_write=metrics.wrote,
        )
        reconciler = Reconciler(
            client=client,
            store=store,
            collector=collector,
            ownership=ownership,
            actor=actor,
            settings=settings,
            interval_s=config.reconcile_interval_s,
            wall_clock=wall_clock,
        )
        workers = Workers(
            queue=queue,
            reconciler=reconciler,
            leadership=leadership,
            number=config.workers,
            clock=clock,
            observe=metrics.reconciled,
        )
        elector = Elector(
            client=client,
            leadership=leadership,
            namespace=config.lease_namespace,
            name=config.lease_name,
            me=me,
            clock=clock,
        )
        relister = Relister(
            client=client,
            store=store,
            kinds=WATCHED,
            namespaces=config.watch_namespaces,
            interval_s=config.relist_interval_s,
            clock=clock,
        )
        health = Health(store, queue, metrics, clock, leadership.valid)
        http = await serve(
            build_app(health=health, registry=registry), host=config.http_host, port=config.http_port
        )

        async def work() -> None:
            await relister.synced.wait()
            await workers.run()

        async def login() -> Credentials:
            return await credentials_of(await load_configuration(config.kubeconfig))

        parts, watches = Supervisor(), asyncio.Event()
        parts.handle_signals()
        parts.start("health", health.run())
        parts.start("elector", elector.run())
        parts.start("relister", relister.run())
        parts.start("collector", collector.run())
        parts.start("workers", work())
        parts.start(
            "watches",
            watch(
                store=store,
                kinds=WATCHED,
                namespaces=config.watch_namespaces,
                login=login,
                stop=watches,
                on_started=parts.handle_signals,
            ),
        )
        logger.info("operator started", extra={"event": "Started", "identity": me})
        told = await parts.wait()

        queue.close()
        await parts.end("workers", within_s=DRAIN_S)
        await parts.end("elector", within_s=0)
        await elector.release()
        await parts.end("health", "relister", "collector", within_s=0)
        await http.cleanup()
        watches.set()
        await parts.end("watches", within_s=DRAIN_S)
    return 0 if told else 1
