"""Who may write a service's status can neither grow it beyond its spec nor open its engines wider."""

import json
from typing import Any

import pytest
from eventually import eventually
from least_service import service

pytestmark = pytest.mark.cluster

FORGED = {
    "desiredReplicas": 99,
    "readyReplicas": 99,
    "activeLimits": {"replicas": 99, "maxNumSeqs": 4096, "maxNumBatchedTokens": 262144},
    "history": [],
}


def test_replicas_and_limits_stay_what_the_spec_allows(namespace: Any, operator: Any) -> None:
    scaling = {"mode": "Auto", "minReplicas": 1, "maxReplicas": 2}
    limits = {"maxNumSeqs": 8, "maxNumBatchedTokens": 512}
    namespace.apply(service(scaling=scaling, engine={"limits": limits}, tuning={"mode": "Auto"}))
    eventually(lambda: namespace.get("deployment", "chat-engine"))
    eventually(lambda: namespace.condition("chat", "Ready"))
    for _ in range(3):
        namespace.patch("infs", "chat", {"status": FORGED}, subresource="status")
        reconciled = operator.metric("headrace_operator_reconciles_total")
        eventually(lambda at=reconciled: operator.metric("headrace_operator_reconciles_total") > at)
        assert namespace.get("deployment", "chat-engine")["spec"]["replicas"] <= 2
        active = json.loads(namespace.get("configmap", "chat-engine")["data"]["limits.json"])
        assert active["max_num_seqs"] <= 8
        assert active["max_num_batched_tokens"] <= 512
    assert operator.metric('headrace_operator_reconciles_total{result="Bug"}') == 0
