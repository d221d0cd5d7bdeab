"""`act` over the real client: in order, by uid, and only while the lease is ours."""

import asyncio

import pytest
from aiohttp import web

from headrace_operator.api.status import Previous
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.plan import Event, Plan, PodAnnotations
from headrace_operator.kube.errors import KubeError
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.kinds import CONFIG_MAPS, WATCHED
from headrace_operator.kube.leadership import Leadership, NotLeadingError
from headrace_operator.kube.store import Store
from headrace_operator.run.act import Actor, NameConflictError
from headrace_operator.run.engine_calls import EngineCalls

SERVICE = {
    "apiVersion": "headrace.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"namespace": "default", "name": "chat", "uid": "svc", "resourceVersion": "7"},
}
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"namespace": "default", "name": "chat-engine"},
    "data": {"limits.json": "{}"},
}
NOTHING = Observation(children={}, previous=Previous())


class Api:
    """Accepts every apply and remembers it."""

    def __init__(self) -> None:
        self.applied: list[tuple[str, dict[str, str], dict]] = []
        self.answer = None

    async def __call__(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.applied.append((request.path, dict(request.query), body))
        if self.answer is not None and (answer := await self.answer(request)) is not None:
            return answer
        metadata = {"uid": "new", "resourceVersion": "100", **body["metadata"]}
        return web.json_response({**body, "metadata": metadata})


@pytest.fixture
def api(api_server) -> Api:
    api_server.fault = Api()
    return api_server.fault


@pytest.fixture
async def actor(client):
    clock = asyncio.get_running_loop().time
    leadership = Leadership(clock)
    leadership.extend(clock() + 10)
    store, written = Store(WATCHED, wake=lambda _key: None), []
    actor = Actor(
        client=client,
        store=store,
        leadership=leadership,
        recorder=EventRecorder(client, instance="me", clock=clock),
        engines=EngineCalls(admin=None, leadership=leadership),
        count_write=written.append,
    )
    actor.test_leadership, actor.test_store, actor.test_written = leadership, store, written
    return actor


def owned(uid: str = "svc") -> dict:
    owner = {"kind": "InferenceService", "uid": uid, "controller": True}
    return {"metadata": {"name": "chat-engine", "uid": "live", "ownerReferences": [owner]}}


async def test_status_comes_first_then_objects_pods_and_events(api, actor):
    plan = Plan(
        status={"url": "x"},
        objects=(CONFIG_MAP,),
        annotate=(PodAnnotations("chat-engine-1", "pod", {"headrace.dev/draining": "now"}),),
        events=(Event("Normal", "SuccessfulRescale", "New size: 2"),),
    )
    acted = await actor.act(plan, service=SERVICE, observation=NOTHING)
    assert [path.rpartition("/default/")[2] for path, _, _ in api.applied] == [
        "inferenceservices/chat/status",
        "configmaps/chat-engine",
        "pods/chat-engine-1",
        "events",
    ]
    assert [query.get("fieldManager") for _, query, _ in api.applied[:3]] == [
        "headrace-status",
        "headrace",
        "headrace",
    ]
    assert acted.writes == 3
    assert actor.test_written == ["InferenceService/status", "ConfigMap", "Pod"]


async def test_status_and_pods_are_written_to_the_very_object_that_was_seen(api, actor):
    plan = Plan(status={}, annotate=(PodAnnotations("p", "pod-uid", {}),))
    await actor.act(plan, service=SERVICE, observation=NOTHING)
    assert [body["metadata"]["uid"] for _, _, body in api.applied] == ["svc", "pod-uid"]


async def test_what_must_not_exist_yet_is_applied_without_force(api, actor):
    await actor.act(Plan(objects=(CONFIG_MAP,)), service=SERVICE, observation=NOTHING)
    [(_, query, body)] = api.applied
    assert query["force"] == "false"
    assert "uid" not in body["metadata"]


async def test_what_exists_and_is_ours_is_applied_by_uid_with_force(api, actor):
    seen = Observation(children={"ConfigMap": owned()}, previous=Previous())
    await actor.act(Plan(objects=(CONFIG_MAP,)), service=SERVICE, observation=seen)
    [(_, query, body)] = api.applied
    assert (query["force"], body["metadata"]["uid"]) == ("true", "live")


@pytest.mark.parametrize("live", [owned("another"), {"metadata": {"name": "chat-engine", "uid": "live"}}])
async def test_what_is_not_ours_is_not_written_even_if_the_plan_says_so(api, actor, live):
    seen = Observation(children={"ConfigMap": live}, previous=Previous())
    with pytest.raises(NameConflictError):
        await actor.act(Plan(objects=(CONFIG_MAP,)), service=SERVICE, observation=seen)
    assert api.applied == []


async def test_a_standby_writes_nothing(api, actor):
    actor.test_leadership.end()
    with pytest.raises(NotLeadingError):
        await actor.act(Plan(status={}, objects=(CONFIG_MAP,)), service=SERVICE, observation=NOTHING)
    assert api.applied == []


async def test_a_lease_that_ends_between_two_writes_stops_the_second(api, actor):
    async def lose(_request):
        actor.test_leadership.end()

    api.answer = lose
    with pytest.raises(NotLeadingError):
        await actor.act(Plan(status={}, objects=(CONFIG_MAP,)), service=SERVICE, observation=NOTHING)
    assert len(api.applied) == 1


async def test_a_write_ends_before_the_lease_does(api, actor):
    async def hang(_request):
        await asyncio.sleep(5)

    api.answer = hang
    clock = asyncio.get_running_loop().time
    actor.test_leadership.extend(clock() + 0.05)
    started_s = clock()
    with pytest.raises(NotLeadingError):
        await actor.act(Plan(status={}), service=SERVICE, observation=NOTHING)
    assert clock() - started_s < 0.4


async def test_a_refused_write_stops_the_plan_and_tells_why(api, actor):
    async def refuse(_request):
        return web.json_response({"reason": "Invalid", "message": "spec.replicas: no"}, status=422)

    api.answer = refuse
    with pytest.raises(KubeError, match=r"spec\.replicas"):
        await actor.act(Plan(status={}, objects=(CONFIG_MAP,)), service=SERVICE, observation=NOTHING)
    assert len(api.applied) == 1


async def test_our_own_write_is_in_the_store_at_once(api, actor):
    await actor.act(Plan(objects=(CONFIG_MAP,)), service=SERVICE, observation=NOTHING)
    assert actor.test_store.get(CONFIG_MAPS, "default", "chat-engine")["metadata"]["resourceVersion"] == "100"


async def test_an_empty_plan_writes_nothing(api, actor):
    acted = await actor.act(Plan(), service=SERVICE, observation=NOTHING)
    assert (acted.writes, acted.engine_errors, api.applied) == (0, 0, [])
