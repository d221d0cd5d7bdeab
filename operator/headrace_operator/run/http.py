"""/metrics, /healthz and /readyz of the operator."""

import asyncio

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from headrace_operator.run.health import Health

MAX_REQUEST_BYTES = 64 * 1024


def build_app(*, health: Health, registry: CollectorRegistry) -> web.Application:
    async def metrics(_request: web.Request) -> web.Response:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        # A thousand services are tens of thousands of series: the loop does not wait for them.
        body = await asyncio.to_thread(generate_latest, registry)
        return web.Response(body=body, headers=headers)

    async def healthz(_request: web.Request) -> web.Response:
        return _verdict(health.not_live_because())

    async def readyz(_request: web.Request) -> web.Response:
        return _verdict(health.not_ready_because())

    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    return app


async def serve(app: web.Application, *, host: str, port: int) -> web.AppRunner:
    """Listen; the caller cleans the runner up."""
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=15, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner


def _verdict(problem: str | None) -> web.Response:
    return web.Response(text="ok\n") if problem is None else web.Response(status=503, text=problem + "\n")
