"""`act` over the real client: in order, by uid, and only while the lease is ours."""

import asyncio

import pytest
from aiohttp import web

from headrace_operator.api.status import Previous
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.plan import Drain, Event, Plan, PodAnnotations
from headrace_operator.kube.client import NOT_THERE
from headrace_operator.kube.errors import KubeError
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.kinds import CONFIG_MAPS, WATCHED
from headrace_operator.kube.leadership import Leadership, NotLeadingError
from headrace_operator.kube.store import Store
from headrace_operator.run.act import Actor, NameConflictError, NameTakenError
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
SERVICE_CHILD = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"namespace": "default", "name": "chat"},
    "spec": {"type": "ClusterIP"},
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
        metadata = {"uid": "new", **body["metadata"], "resourceVersion": "100"}
        return web.json_response({**body, "metadata": metadata})


@pytest.fixture
def api(api_server) -> Api:
    api_server.fault = Api()
    return api_server.fault


@pytest.fixture
async def actor(client):
    clock = asyncio.get_running_loop().time
    leadership = Leadership(clock)
    leadership.extend(clock() + 600)
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


async def test_what_is_to_be_made_is_applied_where_nothing_is_and_without_force(api, actor):
    await actor.act(Plan(objects=(CONFIG_MAP,)), service=SERVICE, observation=NOTHING)
    [(_, query, body)] = api.applied
    assert query["force"] == "false"
    assert "uid" not in body["metadata"]
    assert body["metadata"]["resourceVersion"] == NOT_THERE


async def test_a_name_that_is_taken_is_told_apart_from_any_other_conflict(api, actor):
    api.answer = refusing(409, "configmaps/chat-engine")
    with pytest.raises(NameTakenError):
        await actor.act(Plan(objects=(CONFIG_MAP,)), service=SERVICE, observation=NOTHING)
    seen = Observation(children={"ConfigMap": owned()}, previous=Previous())
    with pytest.raises(KubeError) as somebody_wrote:
        await actor.act(Plan(objects=(CONFIG_MAP,)), service=SERVICE, observation=seen)
    assert not isinstance(somebody_wrote.value, NameTakenError)


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
        await asyncio.Event().wait()

    api.answer = hang
    clock = asyncio.get_running_loop().time
    actor.test_leadership.extend(clock() + 0.05)
    with pytest.raises(NotLeadingError):
        await actor.act(Plan(status={}), service=SERVICE, observation=NOTHING)


def refusing(code, *paths):
    """The API server refuses what is written to these paths, and takes the rest."""

    async def answer(request):
        if not request.path.endswith(paths):
            return None
        return web.json_response({"reason": "No", "message": f"{request.path}: no"}, status=code)

    return answer


@pytest.mark.parametrize("code", [400, 403, 422])
async def test_a_refused_status_stops_the_plan_and_is_told_by_an_event(api, actor, code):
    api.answer = refusing(code, "/status")
    with pytest.raises(KubeError, match="chat/status: no"):
        await actor.act(Plan(status={}, objects=(CONFIG_MAP,)), service=SERVICE, observation=NOTHING)
    assert [path.rpartition("/")[2] for path, _, _ in api.applied] == ["status", "events"]
    assert api.applied[1][2]["reason"] == "StatusRefused"


@pytest.mark.parametrize("code", [400, 403, 404, 422])
async def test_a_refused_child_keeps_no_other_from_being_written(api, actor, code):
    api.answer = refusing(code, "configmaps/chat-engine")
    pod = PodAnnotations("p", "pod-uid", {})
    plan = Plan(
        objects=(CONFIG_MAP, SERVICE_CHILD), annotate=(pod,), events=(Event("Normal", "Done", "not quite"),)
    )
    acted = await actor.act(plan, service=SERVICE, observation=NOTHING)
    assert [path.rpartition("/default/")[2] for path, _, _ in api.applied] == [
        "configmaps/chat-engine",
        "services/chat",
        "pods/p",
    ]
    assert acted.writes == 2
    assert acted.refused.status == code


@pytest.mark.parametrize("code", [401, 409, 500])
async def test_any_other_failure_stops_the_plan(api, actor, code):
    api.answer = refusing(code, "configmaps/chat-engine")
    with pytest.raises(KubeError):
        await actor.act(Plan(objects=(CONFIG_MAP, SERVICE_CHILD)), service=SERVICE, observation=NOTHING)
    assert len(api.applied) == 1


async def test_in_a_namespace_that_ends_nothing_more_is_tried(api, actor):
    async def ending(_request):
        return web.json_response({"message": "namespace default is being terminated"}, status=403)

    api.answer = ending
    with pytest.raises(KubeError):
        await actor.act(Plan(objects=(CONFIG_MAP, SERVICE_CHILD)), service=SERVICE, observation=NOTHING)
    assert len(api.applied) == 1


async def test_a_pod_that_could_not_be_marked_is_not_drained(api, actor):
    api.answer = refusing(403, "pods/p")
    drain = Drain("p", "pod-uid", "10.0.0.1", 60.0)
    plan = Plan(annotate=(PodAnnotations("p", "pod-uid", {}),), drain=(drain,))
    acted = await actor.act(plan, service=SERVICE, observation=NOTHING)
    assert acted.refused.status == 403
    assert acted.engine_errors == 0, "no call was made that an engine could have refused"


async def test_our_own_write_is_in_the_store_at_once(api, actor):
    await actor.act(Plan(objects=(CONFIG_MAP,)), service=SERVICE, observation=NOTHING)
    assert actor.test_store.get(CONFIG_MAPS, "default", "chat-engine")["metadata"]["resourceVersion"] == "100"


async def test_an_empty_plan_writes_nothing(api, actor):
    acted = await actor.act(Plan(), service=SERVICE, observation=NOTHING)
    assert (acted.writes, acted.engine_errors, api.applied) == (0, 0, [])
