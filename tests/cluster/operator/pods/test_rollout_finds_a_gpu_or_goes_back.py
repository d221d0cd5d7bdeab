"""Rollouts on the real scheduler, whose node has as many GPUs as the test says: the engines of a new spec
come, or the old ones stay.
"""

import pytest
from eventually import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.timeout(900)]

START_S = 240.0
GPU = {"gpu": {"count": 1}}


def pods_of(namespace, name="chat"):
    pods = namespace.find("pods", f"headrace.dev/inferenceservice={name}")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def is_ready(pod):
    found = pod["status"].get("conditions", [])
    return any((item["type"], item["status"]) == ("Ready", "True") for item in found)


def settled(namespace, name="chat", reason="RolloutComplete"):
    """The service, once its status is about its newest spec and its rollout ended so."""
    service = namespace.get("infs", name)
    found = namespace.condition(name, "Progressing")
    if found is None or service["status"]["observedGeneration"] != service["metadata"]["generation"]:
        return None
    return service if (found["status"], found["reason"]) == ("False", reason) else None


@pytest.fixture(scope="module")
def serving(namespace, operator, real_service, give_gpus):
    """A service whose one pod has a GPU."""
    give_gpus(2)
    namespace.apply(real_service(engine=GPU))
    eventually(lambda: settled(namespace), within_s=START_S)
    return namespace


def watched(namespace):
    """What was to be seen until the rollout was done: the least ready pods, the most pods, and the reasons
    that Progressing gave.
    """
    ready, counts, reasons = [], [], set()

    def done():
        pods = pods_of(namespace)
        ready.append(sum(map(is_ready, pods)))
        counts.append(len(pods))
        reasons.add(namespace.condition("chat", "Progressing")["reason"])
        return settled(namespace)

    eventually(done, within_s=START_S)
    return min(ready), max(counts), reasons


def test_with_a_gpu_to_spare_no_pod_goes_before_another_serves(serving, real_service):
    serving.apply(real_service(engine={**GPU, "drainTimeout": "61s"}))
    least, most, reasons = watched(serving)
    assert (least, most) == (1, 2)
    assert "RolloutBlocked" not in reasons


def test_without_one_a_pod_at_a_time_goes_first_and_status_says_why(serving, real_service):
    two = {"replicas": 2, "engine": {**GPU, "drainTimeout": "61s"}}
    serving.apply(real_service(**two))
    eventually(lambda: sum(map(is_ready, pods_of(serving))) == 2 and settled(serving), within_s=START_S)
    serving.apply(real_service(replicas=2, engine={**GPU, "drainTimeout": "62s"}))
    least, most, reasons = watched(serving)
    assert (least, most) == (1, 3), "one pod was tried for, and one always served"
    assert "RolloutBlocked" in reasons
    [event] = [event for event in serving.events("chat") if event["reason"] == "RolloutBlocked"]
    assert event["message"].startswith("InsufficientGPU: pod ")


def test_a_spec_whose_engines_end_goes_back_and_stays_back_whoever_leads(
    serving, real_service, give_gpus, operator, launch, tmp_path
):
    give_gpus(3)
    before = {pod["metadata"]["name"] for pod in pods_of(serving)}
    serving.apply(real_service(replicas=2, engine=GPU, model={"uri": "pvc://models/nothing-here"}))
    eventually(lambda: settled(serving, reason="RolledBack"), within_s=START_S)
    eventually(lambda: {pod["metadata"]["name"] for pod in pods_of(serving)} == before)
    failed = serving.get("infs", "chat")["status"]["rollout"]["failed"]
    assert "/models/nothing-here" in failed["message"], "the engine's own words"
    assert serving.condition("chat", "Ready")["status"] == "True"
    assert "RolledBack" in [event["reason"] for event in serving.events("chat")]
    deployment = serving.get("deployment", "chat-engine")["metadata"]
    assert operator.stop() == 0
    successor = launch(tmp_path / "successor.log")
    try:
        successor.wait_ready()
        eventually(lambda: successor.metric("headrace_operator_reconciles_total") > 3)
        assert serving.get("deployment", "chat-engine")["metadata"]["generation"] == deployment["generation"]
        serving.apply(real_service(replicas=2, engine={**GPU, "drainTimeout": "63s"}))
        eventually(lambda: serving.condition("chat", "Progressing")["reason"] == "RolloutInProgress")
        assert "failed" not in serving.get("infs", "chat")["status"]["rollout"]
    finally:
        successor.stop()
        successor.end()
