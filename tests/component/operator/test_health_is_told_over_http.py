"""/metrics, /healthz and /readyz of the operator, over real HTTP."""

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from headrace_operator.kube.coverage import Coverage
from headrace_operator.kube.kinds import INFERENCE_SERVICES, WATCHED, Key
from headrace_operator.kube.store import Store
from headrace_operator.run.health import MAX_QUEUE_AGE_S, MAX_STORE_AGE_S, Health
from headrace_operator.run.http import build_app, serve
from headrace_operator.run.metrics import OperatorMetrics
from headrace_operator.run.queue import WorkQueue
from headrace_operator.run.service_metrics import ServiceMetrics


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Process:
    """The parts that answer, and the means to make them sick."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.registry = CollectorRegistry()
        self.metrics = OperatorMetrics(self.registry)
        self.queue = WorkQueue(clock=self.clock)
        self.store = Store(WATCHED, wake=lambda _key: None)
        self.leads = True
        self.coverage = Coverage(WATCHED, ())
        self.health = Health(self.coverage, self.queue, self.metrics, self.clock, lambda: self.leads)
        self.registry.register(ServiceMetrics(self.store.services, is_leader=lambda: self.leads))

    def sync(self) -> None:
        for kind in WATCHED:
            self.coverage.listed(kind, None, self.clock.now_s)

    def beat(self) -> None:
        """The loop turns: `Health.run` does this once a second."""
        self.health._beat_s = self.clock.now_s


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
async def get(process):
    runner = await serve(
        build_app(health=process.health, registry=process.registry), host="127.0.0.1", port=0
    )
    [(host, port)] = runner.addresses
    async with aiohttp.ClientSession() as session:

        async def request(path: str) -> tuple[int, str]:
            async with session.get(f"http://{host}:{port}{path}") as answer:
                return answer.status, await answer.text()

        yield request
    await runner.cleanup()


async def test_it_is_ready_once_every_kind_was_listed_whether_it_leads_or_not(process, get):
    assert await get("/readyz") == (503, "the first listing of the cluster is not complete\n")
    process.sync()
    process.leads = False
    assert await get("/readyz") == (200, "ok\n")


async def test_it_lives_while_it_still_tries_for_its_first_listing(process, get):
    process.clock.now_s += MAX_STORE_AGE_S - 1
    process.beat()
    assert (await get("/healthz"))[0] == 200
    process.clock.now_s += 2
    process.beat()
    assert await get("/healthz") == (503, "nothing could be listed for 900 s\n")


async def test_a_view_that_grows_too_old_is_the_end(process, get):
    process.sync()
    process.clock.now_s += MAX_STORE_AGE_S + 1
    process.beat()
    assert (await get("/healthz"))[0] == 503
    process.sync()
    assert (await get("/healthz"))[0] == 200


async def test_a_loop_that_does_not_turn_is_the_end(process, get):
    process.sync()
    process.clock.now_s += 7
    assert await get("/healthz") == (503, "the event loop is stuck\n")


async def test_workers_that_take_nothing_are_the_end(process, get):
    process.sync()
    process.queue.add(Key("default", "chat"))
    process.clock.now_s += MAX_QUEUE_AGE_S + 1
    process.beat()
    assert (await get("/healthz"))[0] == 503


def status(**more):
    return {
        "replicas": 3,
        "readyReplicas": 2,
        "desiredReplicas": 3,
        "activeLimits": {"maxNumSeqs": 96, "maxNumBatchedTokens": 4096},
        "observed": {"attainment": "0.72"},
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "SLOMet", "status": "Unknown"}],
        "decision": {"action": "ScaleUp", "reason": "QueueTimeOverBudget"},
        **more,
    }


async def told(get) -> dict[tuple, float]:
    families = text_string_to_metric_families((await get("/metrics"))[1])
    return {
        (
            sample.name,
            *(value for label, value in sorted(sample.labels.items()) if label not in ("name", "namespace")),
        ): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("name") == "chat"
    }


async def test_each_service_is_told_as_its_status_has_it(process, get):
    metadata = {"namespace": "default", "name": "chat", "uid": "u", "resourceVersion": "1"}
    process.store.put(INFERENCE_SERVICES, {"metadata": metadata, "status": status()})
    assert await told(get) == {
        ("headrace_replicas", "ready"): 2,
        ("headrace_replicas", "not_ready"): 1,
        ("headrace_desired_replicas",): 3,
        ("headrace_active_max_num_seqs",): 96,
        ("headrace_active_max_num_batched_tokens",): 4096,
        ("headrace_slo_attainment_ratio",): 0.72,
        ("headrace_condition", "Ready"): 1,
        ("headrace_decision_info", "ScaleUp", "QueueTimeOverBudget"): 1,
    }


async def test_what_status_does_not_say_has_no_series_and_a_standby_tells_none(process, get):
    metadata = {"namespace": "default", "name": "chat", "uid": "u", "resourceVersion": "1"}
    process.store.put(INFERENCE_SERVICES, {"metadata": metadata})
    assert await told(get) == {}
    newer = {**metadata, "resourceVersion": "2"}
    process.store.put(INFERENCE_SERVICES, {"metadata": newer, "status": status()})
    process.leads = False
    assert await told(get) == {}


async def test_what_the_process_does_is_counted(process, get):
    process.metrics.reconciled(Key("a", "b"), "Ok", 0.02)
    process.metrics.requested("APPLY", 409, 0.01)
    process.metrics.wrote("ConfigMap")
    process.metrics.scraped("TimedOut")
    text = (await get("/metrics"))[1]
    for line in (
        'headrace_operator_reconciles_total{result="Ok"} 1.0',
        'headrace_operator_api_request_seconds_count{code="409",verb="APPLY"} 1.0',
        'headrace_operator_writes_total{kind="ConfigMap"} 1.0',
        'headrace_operator_scrapes_total{result="TimedOut"} 1.0',
    ):
        assert line in text
