"""From a configuration to an exit code, as `headrace serve` runs it: logs, sockets, event loop, banner."""

import asyncio
import logging
import os
import resource
import socket
import sys

from headrace_engine.core.limits import Limits
from headrace_engine.link.hosts import ProcessHost
from headrace_engine.server.api_keys import Tenancy
from headrace_engine.server.banner import facts
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.http_server import address, listen
from headrace_engine.server.loading import starting_limits
from headrace_engine.server.named import named
from headrace_engine.server.serve import EngineProcess
from headrace_engine.server.service import Serving
from headrace_engine.telemetry.logs import configure

log = logging.getLogger(__name__)

BAD_CONFIGURATION = 2


def run(config: ServeConfig, *, log_level: str) -> int:
    """Serves until a signal ends it. Returns 0 after a drain, 1 after a failure, 2 for what cannot be
    started.
    """
    configure(log_level)
    try:
        limits = _checked(config)
        serving_socket = listen(config.host, config.port)
        admin_socket = listen(config.admin_host, config.admin_port) if config.admin.given else None
    except (ValueError, OSError) as error:
        log.error("cannot start", extra={"reason": str(error)})  # noqa: TRY400 - the reason says it all
        return BAD_CONFIGURATION
    code = asyncio.run(_serve(config, limits, serving_socket, admin_socket, log_level=log_level))
    log.info("exit", extra={"code": code})
    logging.shutdown()
    # A model that is still being loaded on its thread would take the interpreter's own shutdown down with it.
    os._exit(code)


def _checked(config: ServeConfig) -> Limits:
    """The limits to start with. Every file is looked at before the model is loaded, which takes minutes."""
    config.admin.check()
    if config.api_keys is not None:
        with named(config.api_keys):
            Tenancy.read(config.api_keys)
    return starting_limits(config)


async def _serve(
    config: ServeConfig,
    limits: Limits,
    serving_socket: socket.socket,
    admin_socket: socket.socket | None,
    *,
    log_level: str,
) -> int:
    addresses = {
        "api": address(serving_socket) + "/v1",
        "admin": "not opened: no public keys and no token file"
        if admin_socket is None
        else address(admin_socket),
    }

    def announce(serving: Serving) -> None:
        told = facts(config, serving, addresses)
        log.info("ready", extra=told)
        if sys.stdout.isatty():
            _print(told)

    process = EngineProcess(
        *(config, limits, ProcessHost(config, log_level)),
        serving_socket=serving_socket,
        admin_socket=admin_socket,
        http_limits=HttpLimits.of(config.max_num_seqs + limits.max_num_queued_reqs, _max_open_files()),
        on_ready=announce,
    )
    process.handle_signals()
    log.info("listening", extra=addresses)
    return await process.run()


def _max_open_files() -> int:
    """As many as this process may have: shells give 1024, which is fewer than a full queue's connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return sys.maxsize if most == resource.RLIM_INFINITY else most


def _print(told: dict[str, object]) -> None:
    from rich.console import Console  # noqa: PLC0415 - for a terminal alone
    from rich.table import Table  # noqa: PLC0415

    table = Table.grid(padding=(0, 2))
    for name, value in told.items():
        table.add_row(f"[bold]{name.replace('_', ' ')}[/]", str(value))
    Console().print(table)
