"""A reconcile that is cut off at any await, as by SIGKILL, and a successor that knows only the cluster.

What it finds in the end is what an undisturbed operator would have made: nothing twice, nothing half.
"""

import types
from collections.abc import Coroutine, Generator
from typing import Any

import pytest
from operator_reconciling import (
    DEPLOYMENT,
    KEY,
    POD,
    REPLICA_SET,
    SERVICE,
    Cluster,
    operator,
    pod,
    settled,
)

ENOUGH = 400
"""More awaits than any reconcile here has."""


class CrashedError(BaseException):
    """Nothing may catch it: so ends a process that is killed."""


@types.coroutine
def cut_off(work: Coroutine[Any, Any, Any], at: int) -> Generator[Any, Any, Any]:
    """Runs `work` up to its await number `at`, and abandons it there."""
    resume, argument = work.send, None
    for _ in range(at):
        try:
            waits_for = resume(argument)
        except StopIteration as end:
            return end.value
        try:
            yield waits_for
            resume, argument = work.send, None
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is for `work`
            resume, argument = work.throw, error
    work.close()
    raise CrashedError


async def created(api: Any) -> Cluster:
    """A service that nobody has looked at yet."""
    api.objects.clear()
    return Cluster(api, pods=0, replicas=2)


async def scaled_down(api: Any) -> Cluster:
    """Two pods serve, and one of them is no longer wanted."""
    api.objects.clear()
    cluster = Cluster(api, pods=2, replicas=2)
    await settled(cluster)
    cluster.lay(SERVICE, {"metadata": {"generation": 2}, "spec": {"replicas": 1}})
    return cluster


async def rollout_failed(api: Any) -> Cluster:
    """The engine of a new spec ended again and again beside that of the old one, which served."""
    api.objects.clear()
    cluster = Cluster(api, pods=1, replicas=1)
    await settled(cluster)
    served = api.objects[DEPLOYMENT]["spec"]["template"]
    cluster.lay(REPLICA_SET, {"spec": {"template": served}})
    cluster.lay(POD, {"metadata": {"annotations": served["metadata"]["annotations"]}})
    cluster.lay(DEPLOYMENT, {"status": {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}})
    await settled(cluster)
    cluster.lay(SERVICE, {"metadata": {"generation": 2}, "spec": {"engine": {"threads": 2}}})
    await settled(cluster)
    new = pod(1)
    new["metadata"]["annotations"] = api.objects[DEPLOYMENT]["spec"]["template"]["metadata"]["annotations"]
    ended = {"exitCode": 1, "reason": "Error", "message": "no such model"}
    engine = {"name": "engine", "ready": False, "restartCount": 2, "state": {"terminated": ended}}
    new["status"] |= {"conditions": [], "containerStatuses": [engine]}
    cluster.keep(POD.removesuffix("0") + "1", new)
    cluster.lay(DEPLOYMENT, {"status": {"replicas": 2}})
    return cluster


@pytest.mark.parametrize("scene", [created, scaled_down, rollout_failed])
async def test_a_successor_makes_what_the_crash_left_undone(api_server, scene):
    cluster = await scene(api_server)
    before, expected = cluster.state(), await settled(cluster)
    assert expected != before
    for at in range(ENOUGH):
        cluster = await scene(api_server)
        async with operator(cluster) as doomed:
            try:
                await cut_off(doomed.reconcile(KEY), at)
            except CrashedError:
                crashed = True
            else:
                crashed = False
        assert await settled(cluster) == expected, f"cut off at await {at}"
        if not crashed:
            assert at > 10, "a reconcile that writes waits often"
            return
    raise AssertionError("a reconcile waits without end")
