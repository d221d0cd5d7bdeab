"""A child is made on the condition that nothing has its name: what that costs, and what comes of it if not.

Nobody else's object is written to, and the service says which one it is.
"""

import pytest
from operator_reconciling import KEY, SERVICE, Cluster, operator, settled

from headrace_operator.run.act import NameTakenError

CONFIG_MAP = "/api/v1/namespaces/default/configmaps/chat-engine"
CHILDREN = {
    "/api/v1/namespaces/default/serviceaccounts/chat-engine",
    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/chat-engine",
    CONFIG_MAP,
    "/api/v1/namespaces/default/services/chat",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets/chat-engine",
    "/apis/apps/v1/namespaces/default/deployments/chat-engine",
}
THEIRS = {"metadata": {"name": "chat-engine"}, "data": {"theirs": "yes"}}


@pytest.fixture
def cluster(api_server):
    return Cluster(api_server, pods=0, replicas=1)


def accepted(cluster):
    conditions = cluster.api.objects[SERVICE].get("status", {}).get("conditions", [])
    return next((found["reason"] for found in conditions if found["type"] == "Accepted"), None)


async def look_twice(reconciler):
    """The API server refuses, and the second look is at what has the name."""
    with pytest.raises(NameTakenError):
        await reconciler.reconcile(KEY)
    await reconciler.reconcile(KEY)


async def test_a_new_service_costs_its_status_and_one_call_for_each_child(cluster, api_server):
    async with operator(cluster) as fresh:
        await fresh.reconcile(KEY)
        first = list(api_server.requests)
        await fresh.reconcile(KEY)
    assert first[0] == ("PATCH", f"{SERVICE}/status")
    assert sorted(first[1:]) == sorted(("PATCH", path) for path in CHILDREN)
    assert api_server.requests == first, "and nothing once all is there"


async def test_an_object_that_is_not_ours_stays_and_is_named(cluster, api_server):
    cluster.keep(CONFIG_MAP, THEIRS)
    before = api_server.objects[CONFIG_MAP]
    async with operator(cluster) as fresh:
        await look_twice(fresh)
    assert accepted(cluster) == "NameConflict"
    assert api_server.objects[CONFIG_MAP] is before
    assert "/deployments/chat-engine" not in str(api_server.objects.keys()), "nothing is begun beside it"


async def test_a_successor_sees_the_same_without_writing_anything(cluster, api_server):
    cluster.keep(CONFIG_MAP, THEIRS)
    async with operator(cluster) as first:
        await look_twice(first)
    before = len(api_server.requests)
    async with operator(cluster) as successor:
        await successor.reconcile(KEY)
    assert {method for method, _ in api_server.requests[before:]} == {"GET"}


async def test_once_it_is_gone_the_service_goes_on_and_asks_no_more(cluster, api_server):
    cluster.keep(CONFIG_MAP, THEIRS)
    async with operator(cluster) as fresh:
        await look_twice(fresh)
        del api_server.objects[CONFIG_MAP]
        for _ in range(3):
            await fresh.reconcile(KEY)
            cluster.fill(fresh.store)
        before = len(api_server.requests)
        await fresh.reconcile(KEY)
    assert accepted(cluster) == "Valid"
    assert set(api_server.objects) >= CHILDREN
    assert len(api_server.requests) == before


async def test_a_child_of_ours_that_lost_its_label_gets_it_back(cluster, api_server):
    await settled(cluster)
    live = api_server.objects[CONFIG_MAP]
    labels = live["metadata"].pop("labels")
    async with operator(cluster) as fresh:
        await look_twice(fresh)
    kept = api_server.objects[CONFIG_MAP]["metadata"]
    assert (kept["labels"], kept["uid"]) == (labels, live["metadata"]["uid"])
