"""The façade over the official client, against a server that does what API servers do on bad days."""

import asyncio

import pytest
from aiohttp import web

from headrace_operator.kube.errors import KubeError, KubeUnreachableError
from headrace_operator.kube.kinds import CONFIG_MAPS, INFERENCE_SERVICES, PODS, kind_of

MANIFEST = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"namespace": "default", "name": "c"},
    "data": {},
}


async def test_what_is_not_there_is_none(client):
    assert await client.get(CONFIG_MAPS, "default", "absent") is None


async def test_a_list_is_read_page_by_page_and_its_items_are_whole_objects(api_server, client):
    pages = {"": (["a", "b"], "next"), "next": (["c"], "")}
    asked = []

    async def page(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        names, following = pages[request.query.get("continue", "")]
        items = [{"metadata": {"name": name}} for name in names]
        return web.json_response(
            {"metadata": {"resourceVersion": "7", "continue": following}, "items": items}
        )

    api_server.fault = page
    items, version = await client.list(PODS, "default")
    assert [item["metadata"]["name"] for item in items] == ["a", "b", "c"]
    assert {(item["apiVersion"], item["kind"]) for item in items} == {("v1", "Pod")}
    assert version == "7"
    assert asked[0] == {"limit": "500", "labelSelector": "headrace.dev/inferenceservice"}
    assert api_server.requests[0] == ("GET", "/api/v1/namespaces/default/pods")


@pytest.mark.parametrize(
    ("code", "body", "is_conflict", "is_forbidden", "is_invalid"),
    [
        (409, {"reason": "Conflict", "message": "changed"}, True, False, False),
        (403, {"reason": "Forbidden", "message": "no"}, False, True, False),
        (401, {}, False, True, False),
        (422, {"reason": "Invalid", "message": "spec.x: bad"}, False, False, True),
        (500, {"message": "boom"}, False, False, False),
    ],
)
async def test_a_refusal_is_an_error_with_its_reason(
    api_server, client, code, body, is_conflict, is_forbidden, is_invalid
):
    async def refuse(_request: web.Request) -> web.Response:
        return web.json_response(body, status=code)

    api_server.fault = refuse
    with pytest.raises(KubeError) as caught:
        await client.apply(MANIFEST, field_manager="headrace", force=True)
    error = caught.value
    assert (error.status, error.is_conflict, error.is_forbidden, error.is_invalid) == (
        code,
        is_conflict,
        is_forbidden,
        is_invalid,
    )


async def test_a_call_that_hangs_is_given_up(api_server, impatient_client):
    async def hang(_request: web.Request) -> None:
        await asyncio.Event().wait()

    api_server.fault = hang
    with pytest.raises(KubeUnreachableError, match="Timeout"):
        await impatient_client.get(CONFIG_MAPS, "default", "c")


async def test_a_body_that_drips_is_given_up(api_server, impatient_client):
    async def drip(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b" ")
            await asyncio.sleep(0.05)

    api_server.fault = drip
    with pytest.raises(KubeUnreachableError):
        await impatient_client.get(CONFIG_MAPS, "default", "c")


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b"\xff"])
async def test_an_answer_that_is_no_json_is_no_answer(api_server, client, body):
    async def garble(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    api_server.fault = garble
    with pytest.raises(KubeUnreachableError, match="not JSON"):
        await client.get(CONFIG_MAPS, "default", "c")


async def test_nothing_is_repeated_behind_our_back(api_server, client):
    async def fail(_request: web.Request) -> web.Response:
        return web.Response(status=503)

    api_server.fault = fail
    with pytest.raises(KubeError):
        await client.get(CONFIG_MAPS, "default", "c")
    assert len(api_server.requests) == 1


async def test_names_cannot_leave_their_place_in_the_path(api_server, client):
    await client.get(CONFIG_MAPS, "default", "../../secrets/x?y#z")
    assert api_server.requests == [("GET", "/api/v1/namespaces/default/configmaps/../../secrets/x?y#z")]


def test_the_kinds_are_a_closed_set():
    assert kind_of(MANIFEST) is CONFIG_MAPS
    assert INFERENCE_SERVICES.path("ns", "chat", "status") == (
        "/apis/headrace.dev/v1alpha1/namespaces/ns/inferenceservices/chat/status"
    )
    for manifest in ({"apiVersion": "v1", "kind": "Secret"}, {}, {"apiVersion": ["v1"], "kind": {}}):
        with pytest.raises(LookupError):
            kind_of(manifest)
