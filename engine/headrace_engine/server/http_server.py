"""One listening socket with its app: uvicorn, with our protocol and none of its signal handling."""

import asyncio
import functools
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.protocol import BoundedProtocol, Connections

BACKLOG = 1024
SEND_BUFFER_BYTES = 128 << 10
"""The kernel would take megabytes of a stream for a client that reads nothing, and nobody would notice."""
FLUSH_TIMEOUT_S = 5
"""How long a closing server waits for answers that are being written."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on; port 0 takes any that is free.

    Raises:
        OSError: the address is taken, or is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small pieces at once (TCP_NODELAY) only where the socket says that it is TCP.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"cannot listen at {host} port {port}: {error.strerror}") from error
    return bound


def address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _QuietServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The process has its own handlers, from before the model was loaded."""
        yield


class HttpServer:
    def __init__(self, app: ASGIApp, bound: socket.socket, limits: HttpLimits) -> None:
        self._bound = bound
        self._task: asyncio.Task[None] | None = None
        protocol = functools.partial(BoundedProtocol, limits=limits, open_connections=Connections())
        self._server = _QuietServer(
            uvicorn.Config(
                app,
                http=protocol,  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=FLUSH_TIMEOUT_S,
            )
        )

    def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve([self._bound]))

    async def stop(self) -> None:
        """Stops listening and lets answers under way be written."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
