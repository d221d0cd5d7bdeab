"""Pods that go while they stream: scale-downs and rollouts of real engines under users who never stop asking.

`HEADRACE_DISRUPTIONS=100` disturbs a hundred times, and three services at once. Each service has four users:
two ask for long answers and two for short ones, and of each kind one keeps its connection, as an
application's client does. Every stream is read to its end.
"""

import asyncio
import itertools
import json
import os
import threading
import time
from collections import Counter
from functools import partial
from random import Random

import httpx
import pytest
from eventually import eventually

from headrace_bench.client import Client
from headrace_bench.record import Outcome
from headrace_bench.workload import Lengths, asks

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.timeout(3600)]

DISRUPTIONS = int(os.environ.get("HEADRACE_DISRUPTIONS", "2"))
NAMES = ("one", "two", "three")[: max(1, DISRUPTIONS // 2)]
LONG = Lengths(input_tokens=16, output_tokens=400, spread_ratio=0.6)
SHORT = Lengths(input_tokens=4, output_tokens=4)
PAUSE_S = 0.3
"""Between an answer and the next ask, so that the machine has time left to start engines."""
SETTLED_S = 240.0


class Users:
    """Closed-loop users of some services, each asking again as soon as it is answered."""

    def __init__(self, addresses):
        self.records = []
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all(addresses)))
        self._thread.start()

    async def _all(self, addresses):
        users = itertools.product(addresses, (LONG, SHORT), (True, False))
        await asyncio.gather(*(self._one(*user) for user in users))

    async def _one(self, address, lengths, keeps):
        limits = httpx.Limits(max_keepalive_connections=1 if keeps else 0)
        asked = asks(lengths, Random(address))
        async with httpx.AsyncClient(
            base_url=f"{address}/v1/", limits=limits, timeout=120, trust_env=False
        ) as http:
            client = Client(http, "tiny")
            while not self._leaving.is_set():
                self.records.append(await client.send(next(asked)))
                await asyncio.sleep(PAUSE_S)

    def leave(self):
        """Asks no more, and what came of all that was asked."""
        self._leaving.set()
        self._thread.join()
        return self.records


@pytest.fixture(scope="module")
def serving(namespace, operator, real_service):
    """Services of two pods each, and where they are reached."""
    model = real_service()["spec"]["model"] | {"servedName": "tiny"}
    namespace.apply(*(real_service(name, replicas=2, model=model) for name in NAMES))
    for name in NAMES:
        eventually(partial(is_settled, namespace, name), within_s=SETTLED_S)
    return [f"http://{namespace.get('service', name)['spec']['clusterIP']}:8000" for name in NAMES]


def is_settled(namespace, name):
    service = namespace.get("infs", name)
    status, progressing = service.get("status", {}), namespace.condition(name, "Progressing")
    return (
        status.get("observedGeneration") == service["metadata"]["generation"]
        and status["readyReplicas"] == status["replicas"] == status["desiredReplicas"]
        and progressing["reason"] == "RolloutComplete"
    )


def disturb(namespace, await_settled):
    """The services lose a pod each by a scale-down, then the other by a rollout, then they grow again."""
    left = DISRUPTIONS
    for number in itertools.count():
        for change in ({"replicas": 1}, {"engine": {"drainTimeout": f"{60 + number}s"}}):
            names, left = NAMES[:left], max(0, left - len(NAMES))
            for name in names:
                namespace.patch("infs", name, {"spec": change})
            await_settled(names)
            if not left:
                return
        for name in NAMES:
            namespace.patch("infs", name, {"spec": {"replicas": 2}})
        await_settled(NAMES)


def test_no_stream_breaks_and_nothing_is_refused(namespace, serving):
    def await_settled(names):
        for name in names:
            eventually(partial(is_settled, namespace, name), within_s=SETTLED_S)

    users, started_s = Users(serving), time.monotonic()
    try:
        disturb(namespace, await_settled)
    finally:
        records = users.leave()
    outcomes = Counter(record.outcome for record in records)
    lasted = sorted(record.ended_s - record.sent_s for record in records)
    print(
        json.dumps(
            {
                "disruptions": DISRUPTIONS,
                "seconds": round(time.monotonic() - started_s),
                **outcomes,
                "stream_s_p50": round(lasted[len(lasted) // 2], 2),
                "stream_s_max": round(lasted[-1], 2),
            }
        )
    )
    lost = [record for record in records if record.outcome is not Outcome.OK and record.status != 429]
    assert [(record.outcome, record.status, record.detail) for record in lost] == []
    assert outcomes[Outcome.OK] > 10 * DISRUPTIONS, "there was a load"
