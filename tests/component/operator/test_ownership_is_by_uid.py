"""The chain pod -> ReplicaSet -> Deployment -> service, over the real client."""

import pytest

from headrace_operator.observe.ownership import ASK_AGAIN_S, PodOwnership

PATH = "/apis/apps/v1/namespaces/default/replicasets/"


def owner(kind, name, uid):
    return {"kind": kind, "name": name, "uid": uid, "controller": True}


def obj(name, uid, *owners):
    return {"metadata": {"namespace": "default", "name": name, "uid": uid, "ownerReferences": list(owners)}}


DEPLOYMENT = obj("chat-engine", "dep", owner("InferenceService", "chat", "svc"))
POD = obj("chat-engine-abc-1", "pod", owner("ReplicaSet", "chat-engine-abc", "rs"))


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ownership(api_server, client, clock):
    api_server.objects[PATH + "chat-engine-abc"] = obj(
        "chat-engine-abc", "rs", owner("Deployment", "chat-engine", "dep")
    )
    return PodOwnership(client, clock=clock)


async def owned(ownership, *pods, deployment=DEPLOYMENT, service_uid="svc"):
    found = await ownership.owned(pods, deployment=deployment, service_uid=service_uid)
    return [pod["metadata"]["uid"] for pod in found]


async def test_a_pod_of_the_chain_is_owned_and_its_replicaset_is_read_once(api_server, ownership):
    second = obj("chat-engine-abc-2", "pod2", owner("ReplicaSet", "chat-engine-abc", "rs"))
    assert await owned(ownership, POD, second) == ["pod", "pod2"]
    assert await owned(ownership, POD) == ["pod"]
    assert len(api_server.requests) == 1


@pytest.mark.parametrize(
    "pod",
    [
        obj("p", "x"),
        obj("p", "x", owner("Job", "chat-engine-abc", "rs")),
        obj("p", "x", {**owner("ReplicaSet", "chat-engine-abc", "rs"), "controller": False}),
        obj("p", "x", owner("ReplicaSet", "chat-engine-abc", "another uid")),
        obj("p", "x", owner("ReplicaSet", "other-engine-abc", "rs")),
        obj("p", "x", owner("ReplicaSet", "chat-engine-gone", "rs2")),
    ],
    ids=["no owner", "another kind", "no controller", "another uid", "another name", "absent"],
)
async def test_a_pod_outside_the_chain_is_not(ownership, pod):
    assert await owned(ownership, pod) == []


async def test_a_replicaset_of_another_deployment_does_not_count(api_server, ownership):
    api_server.objects[PATH + "chat-engine-abc"] = obj(
        "chat-engine-abc", "rs", owner("Deployment", "chat-engine", "old")
    )
    assert await owned(ownership, POD) == []


async def test_a_replicaset_that_another_deployment_adopts_counts_for_that_one(api_server, ownership, clock):
    again = obj("chat-engine", "dep again", owner("InferenceService", "chat", "svc"))
    assert await owned(ownership, POD) == ["pod"]
    api_server.objects[PATH + "chat-engine-abc"] = obj("chat-engine-abc", "rs")
    clock.now_s += ASK_AGAIN_S + 1
    assert await owned(ownership, POD, deployment=again) == [], "orphaned, not adopted yet"
    api_server.objects[PATH + "chat-engine-abc"] = obj(
        "chat-engine-abc", "rs", owner("Deployment", "chat-engine", "dep again")
    )
    clock.now_s += ASK_AGAIN_S + 1
    assert await owned(ownership, POD, deployment=again) == ["pod"]


async def test_a_pod_of_somebody_elses_replicaset_costs_few_calls(api_server, ownership, clock):
    api_server.objects[PATH + "chat-engine-abc"] = obj(
        "chat-engine-abc", "rs", owner("Deployment", "chat-engine", "theirs")
    )
    for _ in range(50):
        assert await owned(ownership, POD) == []
        clock.now_s += 1.0
    assert len(api_server.requests) <= 6


@pytest.mark.parametrize("deployment", [None, obj("chat-engine", "dep")])
async def test_without_a_deployment_of_the_service_no_pod_is_its_own(ownership, deployment):
    assert await owned(ownership, POD, deployment=deployment) == []


async def test_a_deployment_of_a_namesake_that_was_deleted_does_not_count(ownership):
    assert await owned(ownership, POD, service_uid="svc made again") == []
