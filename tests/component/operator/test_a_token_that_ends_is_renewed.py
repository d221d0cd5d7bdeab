"""A token that the server no longer takes: read again, once, and never given up on."""

import kopf
import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from headrace_operator.ingest.login import CALM_S, Login
from headrace_operator.kube.auth import Credentials, CredentialsError
from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.errors import KubeError
from headrace_operator.kube.kinds import PODS


class Tokens:
    """What lies on the disk, and what the server takes."""

    on_disk, taken = "new", "new"

    def configuration(self, url: str) -> Configuration:
        configuration = Configuration(host=url)
        configuration.api_key = {"BearerToken": f"Bearer {self.on_disk}"}
        return configuration

    async def answer(self, request: web.Request) -> web.Response | None:
        is_taken = request.headers.get("Authorization") == f"Bearer {self.taken}"
        return None if is_taken else web.json_response({"message": "who are you?"}, status=401)


@pytest.fixture
def tokens(api_server) -> Tokens:
    tokens = Tokens()
    api_server.fault = tokens.answer
    return tokens


@pytest.fixture
async def client(api_server, tokens):
    async def renew() -> Configuration:
        return tokens.configuration(api_server.url)

    tokens.on_disk = "old"
    kube = KubeClient(tokens.configuration(api_server.url), timeout_s=60, renew=renew)
    tokens.on_disk = "new"
    yield kube
    await kube.close()


async def test_a_call_goes_through_with_the_token_that_lies_there_by_now(api_server, client):
    assert await client.get(PODS, "default", "p") is None
    assert len(api_server.requests) == 2
    assert await client.get(PODS, "default", "p") is None
    assert len(api_server.requests) == 3, "the new token is kept"


async def test_a_token_that_is_the_same_is_not_sent_twice(api_server, client, tokens):
    tokens.on_disk = "old"
    with pytest.raises(KubeError, match="who are you"):
        await client.get(PODS, "default", "p")
    assert len(api_server.requests) == 1


class Sleeps(list):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def login(read, sleeps: Sleeps, now: list[float]) -> Login:
    return Login(read, clock=lambda: now[0], sleep=sleeps)


async def read() -> Credentials:
    return Credentials("https://api", None, None, None, "same", insecure=False)


async def test_the_watches_may_come_back_with_the_same_token_but_ever_more_slowly():
    sleeps, now = Sleeps(), [0.0]
    log_in = login(read, sleeps, now)
    given = [await log_in() for _ in range(30)]
    assert {info.token for info in given} == {"same"}
    assert len(set(given)) == 30, "kopf never takes again what was refused"
    assert len(sleeps) == 29
    assert max(sleeps) > 10 * sleeps[0]
    assert max(sleeps) <= 36


async def test_a_login_that_held_is_not_waited_for():
    sleeps, now = Sleeps(), [0.0]
    log_in = login(read, sleeps, now)
    await log_in()
    now[0] += CALM_S + 1
    await log_in()
    assert sleeps == []


async def test_credentials_that_cannot_be_read_are_tried_again():
    async def unreadable() -> Credentials:
        raise CredentialsError("half written")

    with pytest.raises(kopf.TemporaryError):
        await login(unreadable, Sleeps(), [0.0])()
