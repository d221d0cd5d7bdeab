"""The process: puts the parts together, starts them in order, stops them in the reverse one.

Everything of ours starts before the watches, because kopf cancels on its exit whatever started after it. Any
part that ends by itself ends the process (exit 1): a fresh start is the one recovery that is always right.
Stopping: no new work, finish what is under way, give the lease up, then the watches, then the connections.
"""

import logging
import secrets
import time
from asyncio import Event

from aiohttp import web
from kubernetes.aio.client import Configuration
from prometheus_client import CollectorRegistry, disable_created_metrics

from headrace_operator.config import OperatorConfig
from headrace_operator.decide.settings import Settings
from headrace_operator.ingest.login import Login
from headrace_operator.ingest.watch import watch
from headrace_operator.kube.auth import Credentials, credentials_of, load_configuration
from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.coverage import Coverage
from headrace_operator.kube.discovery import is_served
from headrace_operator.kube.elector import Elector, LeaseTiming
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.kinds import CHILDREN, POD_MONITORS, WATCHED
from headrace_operator.kube.leadership import Leadership
from headrace_operator.kube.relist import Relister
from headrace_operator.kube.store import Store
from headrace_operator.observe.admin import AdminClient, Signer
from headrace_operator.observe.children import ChildrenView
from headrace_operator.observe.collector import Collector
from headrace_operator.observe.feed import MAX_REPLY_BYTES, TIMEOUT_S, Feed
from headrace_operator.observe.ownership import PodOwnership
from headrace_operator.observe.scraper import Scraper
from headrace_operator.observe.specs import Specs
from headrace_operator.observe.targets import Targets
from headrace_operator.render.surroundings import Surroundings
from headrace_operator.run.act import Actor
from headrace_operator.run.engine_calls import EngineCalls
from headrace_operator.run.health import Health
from headrace_operator.run.http import build_app, serve
from headrace_operator.run.metrics import OperatorMetrics
from headrace_operator.run.queue import WorkQueue
from headrace_operator.run.reconcile import Reconciler
from headrace_operator.run.rest import Rest
from headrace_operator.run.service_metrics import ServiceMetrics
from headrace_operator.run.supervisor import Supervisor
from headrace_operator.run.workers import Workers

logger = logging.getLogger(__name__)

DRAIN_S = 10.0
NO_KEYS = '{"keys": []}'

clock = time.monotonic
wall_clock = time.time


async def main(config: OperatorConfig) -> int:
    """Run until SIGTERM or SIGINT; the exit status. Raises `CredentialsError` or `AdminKeyError` at the
    start.
    """
    signer = Signer.load(config.admin_key_file) if config.admin_key_file else None
    configuration = await load_configuration(config.kubeconfig)
    has_pod_monitors = config.pod_monitors and await _knows_pod_monitors(configuration)
    operator = Operator(config, configuration, signer, has_pod_monitors=has_pod_monitors)
    try:
        return await operator.run()
    finally:
        await operator.close()


async def _knows_pod_monitors(configuration: Configuration) -> bool:
    client = KubeClient(configuration)
    try:
        known = await is_served(client, POD_MONITORS)
    finally:
        await client.close()
    if not known:
        logger.warning("no PodMonitors are made: the cluster does not know them; restart once it does")
    return known


class Operator:
    """All parts of one process. It runs once."""

    def __init__(
        self,
        config: OperatorConfig,
        configuration: Configuration,
        signer: Signer | None,
        *,
        has_pod_monitors: bool,
    ) -> None:
        self._config, self._has_pod_monitors = config, has_pod_monitors
        optional = (POD_MONITORS,) if has_pod_monitors else ()
        self._kinds, self._children = (*WATCHED, *optional), (*CHILDREN, *optional)
        self._me = f"{config.pod_name}_{secrets.token_hex(4)}"
        self._parts, self._stop_watches = Supervisor(), Event()
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        metrics = OperatorMetrics(registry)
        self._queue, self._leadership = WorkQueue(clock=clock), Leadership(clock)
        self._store, self._specs = Store(self._kinds, wake=self._queue.add), Specs()
        self._rest = Rest(self._queue.add)
        self._client = KubeClient(
            configuration,
            timeout_s=config.api_timeout_s,
            observe=metrics.requested,
            renew=self._read_configuration,
        )
        self._coverage = Coverage(self._kinds, config.watch_namespaces)
        self._recorder = EventRecorder(self._client, instance=self._me, clock=clock)
        self._scraper = Scraper()
        self._admin = AdminClient(signer=signer, wall_clock=wall_clock) if signer else None
        # Of its own, so that engines which do not answer keep no change of limits waiting.
        self._records = (
            AdminClient(
                signer=signer, wall_clock=wall_clock, timeout_s=TIMEOUT_S, max_reply_bytes=MAX_REPLY_BYTES
            )
            if signer
            else None
        )
        self._relister = Relister(
            client=self._client,
            store=self._store,
            coverage=self._coverage,
            interval_s=config.relist_interval_s,
            clock=clock,
        )
        self._elector = Elector(
            client=self._client,
            leadership=self._leadership,
            namespace=config.lease_namespace,
            name=config.lease_name,
            me=self._me,
            clock=clock,
            timing=LeaseTiming.of(config.lease_duration_s),
            recorder=self._recorder,
        )
        self._health = Health(self._coverage, self._queue, metrics, clock, self._leadership.valid)
        registry.register(ServiceMetrics(self._store.services, is_leader=self._leadership.valid))
        self._app = build_app(health=self._health, registry=registry)
        ownership = PodOwnership(self._client, clock=clock)
        self._collector = self._build_collector(ownership, metrics)
        admin_keys = signer.public_keys() if signer else NO_KEYS
        self._workers = self._build_workers(ownership, metrics, admin_keys)

    def _build_collector(self, ownership: PodOwnership, metrics: OperatorMetrics) -> Collector:
        feed = None
        if self._records is not None:
            feed = Feed(admin=self._records, clock=clock, wall_clock=wall_clock, count=metrics.fed)
        return Collector(
            targets=Targets(self._store, ownership),
            specs=self._specs,
            scraper=self._scraper,
            interval_s=self._config.scrape_interval_s,
            wall_clock=wall_clock,
            clock=clock,
            is_leader=self._leadership.valid,
            count=metrics.scraped,
            tell=self._rest.scraped,
            feed=feed,
        )

    def _build_workers(self, ownership: PodOwnership, metrics: OperatorMetrics, admin_keys: str) -> Workers:
        actor = Actor(
            client=self._client,
            store=self._store,
            leadership=self._leadership,
            recorder=self._recorder,
            engines=EngineCalls(admin=self._admin, leadership=self._leadership),
            count_write=metrics.wrote,
        )
        settings = Settings(
            engine_image=self._config.engine_image,
            admin_keys=admin_keys,
            scrape_interval_s=self._config.scrape_interval_s,
            surroundings=Surroundings(
                operator_namespace=self._config.lease_namespace,
                metrics_from=self._config.metrics_from,
                has_pod_monitors=self._has_pod_monitors,
                pod_monitor_labels=self._config.pod_monitor_labels,
            ),
        )
        reconciler = Reconciler(
            store=self._store,
            coverage=self._coverage,
            specs=self._specs,
            children=ChildrenView(self._client, self._store, kinds=self._children),
            ownership=ownership,
            collector=self._collector,
            actor=actor,
            settings=settings,
            rest=self._rest,
            interval_s=self._config.reconcile_interval_s,
            wall_clock=wall_clock,
            count_decision=metrics.decided,
        )
        return Workers(
            queue=self._queue,
            reconciler=reconciler,
            leadership=self._leadership,
            number=self._config.workers,
            clock=clock,
            observe=metrics.reconciled,
        )

    async def run(self) -> int:
        http = await serve(self._app, host=self._config.http_host, port=self._config.http_port)
        self._parts.handle_signals()
        self._parts.start("health", self._health.run())
        self._parts.start("elector", self._elector.run())
        self._parts.start("relister", self._relister.run())
        self._parts.start("collector", self._collector.run())
        self._parts.start("workers", self._work())
        self._parts.start("watches", self._follow())
        logger.info("operator started", extra={"event": "Started", "identity": self._me})
        told = await self._parts.wait()
        await self._stop(http)
        return 0 if told else 1

    async def close(self) -> None:
        if self._admin is not None:
            await self._admin.aclose()
        if self._records is not None:
            await self._records.aclose()
        await self._scraper.aclose()
        await self._client.close()

    async def _work(self) -> None:
        await self._relister.synced.wait()
        await self._workers.run()

    async def _follow(self) -> None:
        # kopf looks once for what is served: a kind that is missing at its start is never watched.
        await self._relister.synced.wait()
        await watch(
            store=self._store,
            kinds=self._kinds,
            namespaces=self._config.watch_namespaces,
            login=Login(self._read_credentials, clock=clock),
            stop=self._stop_watches,
            on_started=self._parts.handle_signals,
        )

    async def _read_configuration(self) -> Configuration:
        return await load_configuration(self._config.kubeconfig)

    async def _read_credentials(self) -> Credentials:
        return await credentials_of(await self._read_configuration())

    async def _stop(self, http: web.AppRunner) -> None:
        patience_s = DRAIN_S if self._relister.synced.is_set() else 0.0
        self._queue.close()
        await self._parts.end("workers", within_s=patience_s)
        await self._parts.end("elector")
        await self._elector.release()
        await self._parts.end("health", "relister", "collector")
        await http.cleanup()
        self._stop_watches.set()
        await self._parts.end("watches", within_s=patience_s)
        logger.info("operator stopped", extra={"event": "Stopped", "identity": self._me})
