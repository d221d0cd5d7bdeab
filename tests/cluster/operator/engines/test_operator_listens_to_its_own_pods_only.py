"""Pods that a test plays the kubelet for: which are scraped and called, and what becomes of what they say."""

import time

import pytest
from eventually import eventually
from least_service import service

pytestmark = pytest.mark.cluster


def engine_pods(namespace):
    pods = namespace.find("pods", "headrace.dev/inferenceservice=chat")
    return [pod for pod in pods if pod["metadata"].get("ownerReferences")]


@pytest.fixture
def pod(namespace, operator):
    """The one pod of a service, as its Deployment made it."""
    namespace.apply(service())
    [pod] = eventually(lambda: engine_pods(namespace))
    return pod


def test_a_ready_pod_is_scraped_and_its_service_becomes_ready(namespace, pod, start_engine):
    engine = start_engine()
    namespace.run_pod(pod, ip=engine.ip)
    eventually(lambda: engine.scrapes > 2)
    eventually(lambda: namespace.condition("chat", "Ready")["status"] == "True")
    eventually(lambda: namespace.condition("chat", "MetricsAvailable")["status"] == "True")
    status = namespace.get("infs", "chat")["status"]
    assert (status["replicas"], status["readyReplicas"]) == (1, 1)


def test_metrics_that_stop_are_missed_and_nothing_is_scaled(namespace, pod, start_engine):
    engine = start_engine()
    namespace.run_pod(pod, ip=engine.ip)
    eventually(lambda: namespace.condition("chat", "MetricsAvailable")["status"] == "True")
    engine.close()
    eventually(lambda: namespace.condition("chat", "MetricsAvailable")["status"] != "True")
    time.sleep(2)
    assert namespace.get("deployment", "chat-engine")["spec"]["replicas"] == 1


def await_scrapes(engine, count=5):
    """So many more, and what they showed has been looked at."""
    scraped = engine.scrapes
    eventually(lambda: engine.scrapes > scraped + count)


def look_alike(pod, suffix, **metadata):
    """A copy of the pod with the labels that the Service selects. With the ReplicaSet's own label too, the
    ReplicaSet would adopt it, and then it is the service's own by the rules of Kubernetes.
    """
    labels = {label: v for label, v in pod["metadata"]["labels"].items() if label != "pod-template-hash"}
    name = pod["metadata"]["name"][: -len(suffix)] + suffix
    container = {"name": "engine", "image": "x"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": {"containers": [container]},
    }


def test_a_look_alike_is_not_scraped_not_counted_and_not_called(namespace, pod, start_engine):
    """Neither labels nor a name nor another service's ReplicaSet make a pod one's own."""
    real, copied, others = start_engine(), start_engine(), start_engine()
    namespace.apply(service("other"))
    [other] = eventually(lambda: namespace.find("pods", "headrace.dev/inferenceservice=other"))
    owner = other["metadata"]["ownerReferences"][0]
    renamed = owner | {"name": pod["metadata"]["ownerReferences"][0]["name"]}
    copy, claiming = look_alike(pod, "zzzzz"), look_alike(pod, "yyyyy", ownerReferences=[renamed])
    namespace.run_pod(pod, ip=real.ip)
    eventually(lambda: real.scrapes > 0)
    namespace.apply(copy, claiming)
    namespace.run_pod(copy, ip=copied.ip)
    if namespace.get("pod", claiming["metadata"]["name"]):
        namespace.run_pod(claiming, ip=others.ip)
    scraped = real.scrapes
    eventually(lambda: real.scrapes > scraped + 4)
    assert (copied.scrapes, others.scrapes, copied.calls, others.calls) == (0, 0, [], [])
    assert namespace.get("infs", "chat")["status"]["readyReplicas"] == 1
    ready = eventually(lambda: _because(namespace, "Ready", "ForeignEndpoint"))
    assert copy["metadata"]["name"] in ready["message"], "the Service does send it requests"
    eventually(lambda: "ForeignEndpoint" in [event["reason"] for event in namespace.events("chat")])


def _because(namespace, kind, reason):
    found = namespace.condition("chat", kind)
    return found if found is not None and (found["status"], found["reason"]) == ("True", reason) else None


def test_limits_that_differ_are_set_by_a_signed_call_for_that_very_pod(namespace, pod, start_engine):
    engine = start_engine()
    engine.limits = {"max_num_seqs": 7, "max_num_batched_tokens": 8192}
    namespace.run_pod(pod, ip=engine.ip)
    active = namespace.get("infs", "chat")["status"]["activeLimits"]
    eventually(lambda: engine.limits["max_num_seqs"] == active["maxNumSeqs"])
    patches = [
        claims for method, path, claims in engine.calls if (method, path) == ("PATCH", "/v1/admin/limits")
    ]
    assert patches[-1]["aud"] == pod["metadata"]["uid"]
    assert patches[-1]["exp"] - patches[-1]["iat"] <= 30
    await_scrapes(engine)
    before = len(engine.calls)
    await_scrapes(engine)
    assert engine.calls[before:] == [], "limits that agree need no call"


def test_a_lying_pod_moves_nothing(namespace, pod, start_engine):
    """Values that cannot be are missing values."""
    engine = start_engine()
    engine.metrics = {
        "headrace_requests_received_total": float("nan"),
        "vllm:num_requests_waiting": -1e9,
        "vllm:kv_cache_usage_perc": float("inf"),
    }
    namespace.run_pod(pod, ip=engine.ip)
    eventually(lambda: namespace.condition("chat", "Ready")["status"] == "True")
    await_scrapes(engine)
    namespace.touch("chat")
    eventually(lambda: namespace.condition("chat", "MetricsAvailable")["status"] == "False")
    assert namespace.get("deployment", "chat-engine")["spec"]["replicas"] == 1
