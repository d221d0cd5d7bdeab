"""Events about services, over the real client."""

import pytest
from aiohttp import web

from headrace_operator.kube.events import BURST, EventRecorder

SERVICE = {
    "apiVersion": "headrace.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"namespace": "default", "name": "chat", "uid": "u-1", "resourceVersion": "7"},
}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(client, clock) -> EventRecorder:
    return EventRecorder(client, instance="me", clock=clock)


def posted(api_server):
    return list(api_server.objects.values())


async def test_an_event_names_its_object_reason_and_reporter(api_server, recorder):
    await recorder.post(SERVICE, type_="Normal", reason="LimitsTuned", message="max_num_seqs 4 -> 8")
    [event] = posted(api_server)
    assert (event["type"], event["reason"], event["message"]) == (
        "Normal",
        "LimitsTuned",
        "max_num_seqs 4 -> 8",
    )
    assert event["involvedObject"]["uid"] == "u-1"
    assert event["metadata"]["namespace"] == "default"
    assert event["reportingInstance"] == "me"


async def test_a_repeat_is_counted_on_the_same_event(api_server, recorder):
    for size in (2, 3, 4):
        await recorder.post(SERVICE, type_="Normal", reason="SuccessfulRescale", message=f"New size: {size}")
    [event] = posted(api_server)
    assert (event["count"], event["message"]) == (3, "New size: 4")


async def test_another_reason_or_another_object_is_another_event(api_server, recorder):
    other = {**SERVICE, "metadata": SERVICE["metadata"] | {"uid": "u-2"}}
    await recorder.post(SERVICE, type_="Normal", reason="A", message="")
    await recorder.post(SERVICE, type_="Normal", reason="B", message="")
    await recorder.post(other, type_="Normal", reason="A", message="")
    assert len(posted(api_server)) == 3


async def test_an_event_that_has_expired_is_made_anew(api_server, recorder):
    await recorder.post(SERVICE, type_="Normal", reason="A", message="one")
    api_server.objects.clear()
    await recorder.post(SERVICE, type_="Normal", reason="A", message="two")
    [event] = posted(api_server)
    assert (event["count"], event["message"]) == (1, "two")


async def test_each_reason_of_an_object_has_a_budget_that_refills_slowly(api_server, recorder, clock):
    async def flap(about=SERVICE, reason="MetricsLost"):
        await recorder.post(about, type_="Warning", reason=reason, message="")

    for _ in range(20):
        await flap()
    [flapping] = posted(api_server)
    assert flapping["count"] == BURST
    await flap(reason="RolloutBlocked")
    await flap(about={**SERVICE, "metadata": SERVICE["metadata"] | {"uid": "u-2"}})
    assert len(posted(api_server)) == 3, "what flaps silences neither what is rare nor another object"
    clock.now_s += 12
    await flap()
    await flap()
    assert posted(api_server)[0]["count"] == BURST + 1


async def test_an_event_that_cannot_be_posted_is_forgotten(api_server, recorder):
    async def forbidden(_request: web.Request) -> web.Response:
        return web.Response(status=403)

    api_server.fault = forbidden
    await recorder.post(SERVICE, type_="Normal", reason="A", message="")
    assert posted(api_server) == []


async def test_a_message_is_cut_to_what_the_api_takes(api_server, recorder):
    await recorder.post(SERVICE, type_="Normal", reason="A", message="x" * 5000)
    [event] = posted(api_server)
    assert len(event["message"]) == 1024
