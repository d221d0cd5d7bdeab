"""A small API server over real HTTP: objects with uids and resource versions, and faults on demand."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from headrace_operator.kube.client import KubeClient


@dataclass
class ApiServer:
    """Create, read, replace and merge by path; optimistic locking as the real one does it."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    fault: Callable[[web.Request], Awaitable[web.StreamResponse | None]] | None = None
    versions: Any = field(default_factory=lambda: itertools.count(1))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        if self.fault is not None and (answer := await self.fault(request)) is not None:
            return answer
        live = self.objects.get(request.path)
        if request.method == "POST":
            body = await request.json()
            path = f"{request.path}/{body['metadata']['name']}"
            if path in self.objects:
                return status(409, "AlreadyExists")
            return self.keep(path, body, 201)
        if live is None:
            return status(404, "NotFound")
        if request.method == "GET":
            return web.json_response(live)
        body = await request.json()
        if request.method == "PUT":
            if body["metadata"].get("resourceVersion") != live["metadata"]["resourceVersion"]:
                return status(409, "Conflict")
            return self.keep(request.path, body, 200)
        return self.keep(request.path, {**live, **body}, 200)

    def keep(self, path: str, body: dict[str, Any], code: int) -> web.Response:
        version = str(next(self.versions))
        metadata = {"uid": f"uid-{version}", **body["metadata"], "resourceVersion": version}
        self.objects[path] = {**body, "metadata": metadata}
        return web.json_response(self.objects[path], status=code)


def status(code: int, reason: str, **more: Any) -> web.Response:
    body = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": f"{reason} it is",
    }
    return web.json_response(body | more, status=code)


@pytest.fixture
async def api_server() -> AsyncIterator[ApiServer]:
    api = ApiServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    async with TestServer(app) as server:
        api.url = str(server.make_url("/")).rstrip("/")  # type: ignore[attr-defined]
        yield api


@asynccontextmanager
async def client_of(api_server: ApiServer, *, timeout_s: float) -> AsyncIterator[KubeClient]:
    kube = KubeClient(Configuration(host=api_server.url), timeout_s=timeout_s)  # type: ignore[attr-defined]
    yield kube
    await kube.close()


@pytest.fixture
async def client(api_server: ApiServer) -> AsyncIterator[KubeClient]:
    async with client_of(api_server, timeout_s=60) as kube:
        yield kube


@pytest.fixture
async def impatient_client(api_server: ApiServer) -> AsyncIterator[KubeClient]:
    """For calls that must not come back in time."""
    async with client_of(api_server, timeout_s=0.2) as kube:
        yield kube
