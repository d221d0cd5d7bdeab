"""The life of the process: listen, load, serve, drain, exit.

Signal handlers and sockets stand before the model is loaded, so a probe or a SIGTERM in between is
answered. The first SIGTERM drains, the second ends what is in flight at once, each stream with its terminal
event; both exit with 0. A model that cannot be loaded, a step that failed and one that never ended exit
with 1.
"""

import asyncio
import hashlib
import logging
import signal
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from prometheus_client import ProcessCollector

from headrace_engine.core.contract import Contract
from headrace_engine.core.limits import Limits
from headrace_engine.link.client import CoreLostError
from headrace_engine.link.hosts import CoreHost
from headrace_engine.link.lifetime import CoreLifetime
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.server.active_limits import ActiveLimits
from headrace_engine.server.admin_auth import AdminAuth
from headrace_engine.server.api_keys import ApiKeys
from headrace_engine.server.app import admin_app, serving_app
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.drain import Drain
from headrace_engine.server.engine import Engine
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.http_server import HttpServer
from headrace_engine.server.json_shape import BodyBounds
from headrace_engine.server.model import ServedModel
from headrace_engine.server.prompts import Prompts
from headrace_engine.server.rules import Rules
from headrace_engine.server.seeds import Seeds
from headrace_engine.server.service import Phase, Service, Serving
from headrace_engine.server.wire import now_unix_s
from headrace_engine.telemetry.metrics import Metrics
from headrace_engine.telemetry.recorder import Recorder
from headrace_engine.telemetry.records import Records
from headrace_engine.telemetry.trace_context import TraceContext

if TYPE_CHECKING:
    from headrace_engine.telemetry.traces import Traces

log = logging.getLogger(__name__)


class EngineProcess:
    """One engine, from its sockets to its exit code: `host` runs its core, which starts with `limits`."""

    def __init__(
        self,
        config: ServeConfig,
        limits: Limits,
        host: CoreHost,
        *,
        serving_socket: socket.socket,
        admin_socket: socket.socket | None = None,
        http_limits: HttpLimits,
        on_ready: Callable[[Serving], None] = lambda _serving: None,
    ) -> None:
        self._config = config
        self._limits = limits
        self._core = CoreLifetime(host)
        self._on_ready = on_ready
        self._sockets = (serving_socket, admin_socket)
        self.service = Service(config.names, http_limits)
        self._drain = Drain(self.service, config.drain_grace_s)
        self._traces = _traces(config)
        self._serving: Serving | None = None
        self._leaving = asyncio.Event()
        self._failed = asyncio.Event()

    async def run(self) -> int:
        """Serves until told to stop; returns the exit code."""
        servers = self._servers()
        for server in servers:
            server.start()
        loading = asyncio.create_task(self._open())
        try:
            return await self._until_told(loading)
        finally:
            loading.cancel()
            await asyncio.gather(*(server.stop() for server in servers))
            await self._close()

    def terminate(self) -> None:
        """Drain and exit; said again, wait no longer for what is in flight."""
        if self._leaving.is_set():
            self._drain.hurry()
        self._leaving.set()

    def handle_signals(self) -> None:
        """SIGTERM and SIGINT mean `terminate`. For a process that is an engine and nothing else."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.terminate)

    def _servers(self) -> list[HttpServer]:
        config, limits = self._config, self.service.http_limits
        serving_socket, admin_socket = self._sockets
        app = serving_app(self.service)
        traced = app if self._traces is None else TraceContext(app)
        servers = [HttpServer(traced, serving_socket, limits)]
        if admin_socket is not None:
            auth = AdminAuth(config.admin)
            app = admin_app(self.service, auth, self._drain, config.shutdown_timeout_s)
            servers.append(HttpServer(app, admin_socket, limits))
        return servers

    async def _until_told(self, loading: asyncio.Task[None]) -> int:
        leaving, failed = (asyncio.create_task(event.wait()) for event in (self._leaving, self._failed))
        try:
            await asyncio.wait([loading, leaving], return_when=asyncio.FIRST_COMPLETED)
            if loading.done() and (error := loading.exception()) is not None:
                return _refused(error)
            await asyncio.wait([leaving, failed], return_when=asyncio.FIRST_COMPLETED)
            if self.service.phase in (Phase.READY, Phase.DRAINING):
                self._drain.begin(self._config.shutdown_timeout_s)
                drained = asyncio.create_task(self._drain.wait())
                await asyncio.wait([drained, failed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            failed.cancel()
        stuck = self._serving is not None and self._serving.engine.num_unanswered > 0
        return 1 if stuck or self._failed.is_set() else 0

    async def _open(self) -> None:
        link, model = await self._core.start()
        config, limits, names = self._config, self._limits, self._config.names
        metrics = Metrics(model_name=names[0], max_model_len=model.capacity.max_model_len, slo=config.slo)
        if self._core.pid is not None:
            ProcessCollector("headrace_core", lambda: str(self._core.pid), registry=metrics.registry)
        records = Records()
        traces = self._traces
        traced = () if traces is None else (traces.ended,)
        recorder = Recorder(metrics, config.slo, on_end=(records.ended, *traced))
        api_keys = None if config.api_keys is None else ApiKeys(config.api_keys)
        contract = Contract() if api_keys is None else api_keys.tenancy.contract
        rules = Rules(limits, config.scheduling_policy, contract)
        observers = (recorder.record, records.record)
        engine = Engine(
            *(model, link, rules, observers),
            enable_prefix_caching=config.enable_prefix_caching,
            on_failure=self._engine_failed,
            on_submit=() if traces is None else (traces.submitted,),
            on_refusal=recorder.refuse,
        )
        recorder.record_start(model.capacity, _cache_facts(model, config))
        capacity = model.capacity
        self._serving = Serving(
            engine=engine,
            prompts=Prompts(
                model.tokenizer, max_model_len=capacity.max_model_len, vocab_size=model.vocab_size
            ),
            seeds=Seeds(config.seed),
            metrics=metrics,
            records=records,
            limits=ActiveLimits(engine, rules, recorder, lambda: datetime.now(UTC)),
            body_bounds=BodyBounds.of(capacity.max_model_len),
            fingerprint=_fingerprint(config, model),
            queue_deadline_s=config.queue_deadline_s,
            first_token_s=config.slo.ttft_s,
            api_keys=api_keys,
            started_unix_s=now_unix_s(),
        )
        self.service.open(self._serving)
        self._on_ready(self._serving)

    def _engine_failed(self) -> None:
        self.service.fail()
        self._failed.set()

    async def _close(self) -> None:
        if self._serving is not None:
            self._serving.prompts.close()
        await self._core.end()
        if self._traces is not None:
            await asyncio.to_thread(self._traces.close)


def _refused(error: BaseException) -> int:
    if isinstance(error, ModelLoadError | CoreLostError | OSError):
        log.error("cannot serve", extra={"reason": str(error)})
    else:
        log.error("loading failed", exc_info=error)
    return 1


def _traces(config: ServeConfig) -> "Traces | None":
    """The SDK is loaded by engines that export alone.

    Raises:
        ValueError: the endpoint is no URL of a collector.
    """
    if config.otlp_traces_endpoint is None:
        return None
    from headrace_engine.telemetry.traces import Traces  # noqa: PLC0415

    return Traces.to(config.otlp_traces_endpoint, config.names[0])


def _fingerprint(config: ServeConfig, model: ServedModel) -> str:
    """Equal fingerprints and seeds give equal answers: what decides them besides the request."""
    facts = f"{version('headrace')}|{config.model}|{model.dtype}|{config.seed}"
    return f"fp_{hashlib.sha256(facts.encode()).hexdigest()[:10]}"


def _cache_facts(model: ServedModel, config: ServeConfig) -> dict[str, str]:
    return {
        "block_size": str(model.capacity.block_size),
        "num_gpu_blocks": str(model.capacity.num_blocks),
        "enable_prefix_caching": str(config.enable_prefix_caching),
        "cache_dtype": model.dtype,
    }
