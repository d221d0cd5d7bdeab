"""Limits and drains for many pods, some of which hang or refuse."""

import asyncio
import time
from contextlib import aclosing

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headrace_operator.api.spec import Limits
from headrace_operator.decide.plan import Drain, SetLimits
from headrace_operator.kube.leadership import Leadership
from headrace_operator.observe.admin import AdminClient, Signer
from headrace_operator.run import engine_calls
from headrace_operator.run.engine_calls import EngineCalls

NEW = Limits(8, 512)


async def obeys(_request: web.Request) -> web.Response:
    return web.json_response({}, headers={"ETag": '"1"'})


async def refuses(_request: web.Request) -> web.Response:
    return web.json_response({"error": {"param": "max_num_seqs"}}, status=400)


class Hangs:
    """Answers nobody."""

    called = 0

    async def answer(self, _request: web.Request) -> web.Response:
        self.called += 1
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
def leadership() -> Leadership:
    leadership = Leadership(time.monotonic)
    leadership.extend(time.monotonic() + 60)
    return leadership


@pytest.fixture
async def call(leadership, monkeypatch):
    """Calls an engine that behaves so, at the port that engines have."""

    async def call(behave, *changes: SetLimits | Drain, timeout_s: float = 60.0):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", behave)
        signer = Signer(Ed25519PrivateKey.generate())
        async with (
            TestServer(app) as server,
            aclosing(AdminClient(signer=signer, wall_clock=time.time, timeout_s=timeout_s)) as admin,
        ):
            monkeypatch.setattr(engine_calls, "ADMIN_PORT", server.port)
            calls = EngineCalls(admin=admin, leadership=leadership)
            if isinstance(changes[0], Drain):
                return await calls.drain(changes)
            return await calls.set_limits(changes)

    return call


def change(uid: str, ip: str = "127.0.0.1") -> SetLimits:
    return SetLimits(f"pod-{uid}", uid, ip, NEW)


async def test_each_pod_that_takes_its_limits_is_named(call):
    assert await call(obeys, change("a"), change("b")) == {"a": NEW, "b": NEW}


async def test_pods_that_hang_are_waited_for_together(call):
    hangs = Hangs()
    calling = asyncio.create_task(call(hangs.answer, *(change(str(i)) for i in range(8))))
    async with asyncio.timeout(60):
        while hangs.called < 8:
            await asyncio.sleep(0.01)
    assert not calling.done(), "none was given up before the last was called"
    calling.cancel()


async def test_a_pod_that_hangs_is_given_up(call):
    assert await call(Hangs().answer, change("a"), timeout_s=0.1) == {}


async def test_a_refusal_is_logged_and_raises_nothing(call, caplog):
    assert await call(refuses, change("a")) == {}
    assert "max_num_seqs" in caplog.text


async def test_drains_are_counted(call):
    assert await call(obeys, Drain("p", "a", "127.0.0.1", 30.0), Drain("q", "b", "127.0.0.1", 30.0)) == 2


async def test_without_the_lease_nobody_is_called(call, leadership):
    leadership.end()
    assert await call(obeys, change("a")) == {}


async def test_without_a_key_nobody_is_called(leadership):
    calls = EngineCalls(admin=None, leadership=leadership)
    assert await calls.set_limits([change("a")]) == {}
    assert await calls.drain([Drain("p", "a", "127.0.0.1", 30.0)]) == 0
