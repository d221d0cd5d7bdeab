"""A tenant's rate is that of the whole service: real engines hold their part of it as pods come and go."""

import hashlib
import urllib.request

import pytest
from eventually import eventually

from headrace_operator.api.parsing import parse
from headrace_operator.runtimes.terms import contract

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.timeout(900)]

START_S = 240.0
TENANTS = {
    "keys": {hashlib.sha256(b"sk-of-acme").hexdigest(): "acme"},
    "items": [{"name": "acme", "limits": {"requestsPerMinute": 600}}],
}


def ready_pods(namespace):
    """Their addresses by name."""
    pods = namespace.find("pods", "headrace.dev/inferenceservice=rated")
    return {
        pod["metadata"]["name"]: pod["status"]["podIP"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any((c["type"], c["status"]) == ("Ready", "True") for c in pod["status"].get("conditions", []))
    }


def digest(address):
    """Of the terms that an engine holds, by its own word; None of one that has just left."""
    try:
        with urllib.request.urlopen(f"http://{address}:8000/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return None
    return next(float(line.split()[1]) for line in lines if line.startswith("headrace_tenants_digest"))


def hold_their_part(namespace, count):
    """Whether so many pods are ready, and each lets that part of the rate through."""
    tenants, pods = parse(namespace.get("infs", "rated")).tenants, ready_pods(namespace)
    part = contract(tenants, ready_replicas=count).digest
    return len(pods) == count and all(digest(address) == part for address in pods.values())


def ask_for(namespace, count):
    scaling = {"mode": "Fixed", "minReplicas": count, "maxReplicas": count}
    namespace.patch("infs", "rated", {"spec": {"scaling": scaling}})


def test_who_stays_takes_over_the_part_of_who_leaves_and_gives_it_back(namespace, operator, real_service):
    namespace.apply(real_service("rated", replicas=2, tenants=TENANTS))
    eventually(lambda: hold_their_part(namespace, 2), within_s=START_S)
    before = ready_pods(namespace)
    ask_for(namespace, 1)
    eventually(lambda: hold_their_part(namespace, 1))
    assert ready_pods(namespace).keys() < before.keys()
    ask_for(namespace, 2)
    eventually(lambda: hold_their_part(namespace, 2), within_s=START_S)
