"""The relister over the real client: what counts as synced, what a failed LIST does, what it says."""

import asyncio
import logging

import pytest
from aiohttp import web

from headrace_operator.kube.coverage import Coverage
from headrace_operator.kube.kinds import AUTOSCALERS, INFERENCE_SERVICES, PODS, WATCHED, Key
from headrace_operator.kube.relist import RETRY_S, Relister
from headrace_operator.kube.store import Store

CHAT = Key("default", "chat")


class Lists:
    """Serves LISTs: `broken` plurals (or namespace/plural) with a status, one labelled pod, nothing else."""

    def __init__(self) -> None:
        self.broken: dict[str, int] = {}
        self.unwatched: set[str] = set()
        self.pods = ["chat-engine-1"]
        self.version = 10

    async def __call__(self, request: web.Request) -> web.Response:
        plural = request.path.rpartition("/")[2]
        if plural in self.unwatched and "watch" in request.query:
            return web.json_response({"message": "no watch"}, status=403)
        namespace = request.path.rpartition("/namespaces/")[2].partition("/")[0]
        code = self.broken.get(plural) or self.broken.get(f"{namespace}/{plural}")
        if code:
            return web.json_response({"message": "no"}, status=code)
        items = []
        if plural == "pods":
            labels = {"headrace.dev/inferenceservice": "chat"}
            items = [
                {
                    "metadata": {
                        "namespace": "default",
                        "name": name,
                        "uid": name,
                        "resourceVersion": "5",
                        "labels": labels,
                    }
                }
                for name in self.pods
            ]
        return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})


@pytest.fixture
def lists(api_server) -> Lists:
    api_server.fault = Lists()
    return api_server.fault


@pytest.fixture
def store() -> Store:
    return Store(WATCHED, wake=lambda _key: None)


class Rounds:
    """Lets the relister run as many rounds as the test asks for, and tells how long it wanted to wait."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.waits_s: list[float] = []
        self.between = lambda: None

    async def sleep(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.left -= 1
        self.between()
        if self.left == 0:
            raise asyncio.CancelledError


async def run(client, store, rounds: Rounds, coverage: Coverage | None = None) -> Relister:
    relister = Relister(
        client=client,
        store=store,
        coverage=coverage or Coverage(WATCHED, ()),
        interval_s=300,
        clock=lambda: 1.0,
        sleep=rounds.sleep,
    )
    with pytest.raises(asyncio.CancelledError):
        await relister.run()
    return relister


async def test_one_round_that_lists_every_kind_is_a_sync(lists, client, store):
    rounds = Rounds(1)
    relister = await run(client, store, rounds)
    assert relister.synced.is_set()
    assert len(store.pods_of(CHAT)) == 1
    assert 240 <= rounds.waits_s[0] <= 360


@pytest.mark.parametrize("code", [401, 404, 429, 500])
async def test_a_kind_that_nobody_could_list_keeps_it_from_being_synced_and_is_asked_for_soon(
    lists, client, store, code
):
    lists.broken = {"deployments": code}
    rounds = Rounds(1)
    relister = await run(client, store, rounds)
    assert not relister.synced.is_set()
    assert rounds.waits_s[0] <= RETRY_S * 1.2


async def test_what_is_refused_blinds_its_own_namespace_and_lets_the_others_begin(lists, client, store):
    """And is tried again soon: somebody may grant it."""
    lists.broken = {"b/pods": 403}
    coverage, rounds = Coverage(WATCHED, ("a", "b")), Rounds(1)
    relister = await run(client, store, rounds, coverage)
    assert relister.synced.is_set()
    assert coverage.blind_in("a") is None
    assert coverage.blind_in("b").status == 403
    assert coverage.seen_nowhere_because() is None
    assert rounds.waits_s[0] <= RETRY_S * 1.2


@pytest.mark.parametrize("code", [403, 404])
async def test_what_is_only_told_about_is_done_without_and_asked_for_at_the_regular_time(
    lists, client, store, code
):
    """Other people's autoscalers: the right to see them may lack, or the kind itself."""
    lists.broken = {"horizontalpodautoscalers": code}
    coverage, rounds = Coverage(WATCHED, ()), Rounds(1)
    relister = await run(client, store, rounds, coverage)
    assert relister.synced.is_set()
    assert coverage.blind_in("a") is None
    assert coverage.unseen_in(AUTOSCALERS, "a").status == code
    assert rounds.waits_s[0] >= 240


async def test_a_refusal_everywhere_leaves_nothing_to_work_in(lists, client, store):
    lists.broken = {"pods": 403}
    coverage = Coverage(WATCHED, ())
    await run(client, store, Rounds(1), coverage)
    assert coverage.seen_nowhere_because().status == 403
    lists.broken = {}
    await run(client, store, Rounds(1), coverage)
    assert coverage.seen_nowhere_because() is None


async def test_the_services_of_a_namespace_are_looked_at_when_it_goes_dark_and_when_it_clears(lists, client):
    woken = []
    store = Store(WATCHED, wake=woken.append)
    store.put(INFERENCE_SERVICES, {"metadata": {"namespace": "default", "name": "chat", "uid": "u"}})
    coverage = Coverage((PODS,), ())
    for code in ({"pods": 403}, {}):
        woken.clear()
        lists.broken = code
        await run(client, store, Rounds(1), coverage)
        assert CHAT in woken


async def test_a_watch_that_is_refused_is_known_and_made_up_for_by_close_lists(lists, client, store):
    lists.unwatched = {"pods"}
    coverage, rounds = Coverage(WATCHED, ()), Rounds(1)
    relister = await run(client, store, rounds, coverage)
    assert relister.synced.is_set()
    assert coverage.blind_in("default") is None
    assert coverage.deaf_in("default").message == "no watch"
    assert rounds.waits_s[0] <= RETRY_S * 1.2
    lists.unwatched = set()
    await run(client, store, Rounds(1), coverage)
    assert coverage.deaf_in("default") is None


async def test_a_failed_list_prunes_nothing(lists, client, store):
    rounds = Rounds(2)

    def between():
        lists.broken = {"pods": 500}

    rounds.between = between
    await run(client, store, rounds)
    assert len(store.pods_of(CHAT)) == 1


async def test_a_later_list_prunes_what_a_watch_lost(lists, client, store):
    rounds = Rounds(2)

    def between():
        lists.pods, lists.version = [], 20

    rounds.between = between
    await run(client, store, rounds)
    assert store.pods_of(CHAT) == []


async def test_each_watched_namespace_is_listed_and_no_other(api_server, lists, client, store):
    await run(client, store, Rounds(1), Coverage(WATCHED, ("a", "b")))
    assert {path.split("/namespaces/")[1].split("/")[0] for _, path in api_server.requests} == {"a", "b"}
    assert PODS.path("a") in {path for _, path in api_server.requests}


@pytest.mark.parametrize(
    ("broken", "advice"),
    [
        ({"inferenceservices": 404}, "apply crds/ first"),
        ({"deployments": 403}, "grant the operator get, list and watch on deployments of apps"),
        ({"pods": 403}, "on pods of the core group"),
    ],
)
async def test_it_says_what_to_do(lists, client, store, caplog, broken, advice):
    lists.broken = broken
    with caplog.at_level(logging.WARNING):
        await run(client, store, Rounds(1))
    assert advice in caplog.text
