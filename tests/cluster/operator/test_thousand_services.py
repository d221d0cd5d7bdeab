"""Many services on a real API server and nodes that do not exist: how long, and at what cost.

HEADRACE_TEST_SERVICES says how many. The figures are printed at the end (`-s`).
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from operator_process import OperatorProcess, account_file, install, launch_operator, wait_for
from simulated_nodes import SimulatedNodes

from headrace_local.cluster import Cluster
from headrace_local.pytest_plugin import session_cluster
from headrace_operator.kube.kinds import CHILDREN, INFERENCE_SERVICES

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

NUMBER = int(os.environ.get("HEADRACE_TEST_SERVICES", "120"))
NAMESPACES = 10
WITHIN_S = max(30.0, 60.0 * NUMBER / 1000)
STEADY_S = 8.0 if NUMBER < 1000 else 75.0
"""Of a thousand, so long that each was looked at: at rest that is every minute."""
CHART_DEFAULTS = {"LEASE_DURATION_S": "15", "RECONCILE_INTERVAL_S": "5", "SCRAPE_INTERVAL_S": "2"}
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Crowd:
    """`NUMBER` services over `NAMESPACES` namespaces, and the operator that serves them."""

    cluster: Cluster
    nodes: SimulatedNodes
    launch: Callable[..., OperatorProcess]
    place: Path
    figures: dict[str, str] = field(default_factory=dict)
    started: list[OperatorProcess] = field(default_factory=list)

    def start(self) -> OperatorProcess:
        operator = self.launch(self.place / f"operator-{len(self.started)}.log", **CHART_DEFAULTS)
        self.started.append(operator)
        return operator

    def services(self) -> list[dict[str, Any]]:
        return self.nodes.objects(INFERENCE_SERVICES.path(None))

    def are_all(self, type_: str) -> bool:
        found = self.services()
        return len(found) == NUMBER and all(_is_true(service, type_) for service in found)

    def versions(self) -> dict[str, str]:
        """Of the services and of their children, by uid."""
        kinds = (INFERENCE_SERVICES, *CHILDREN)
        found = [item for kind in kinds for item in self.nodes.objects(kind.path(None))]
        return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in found}


def _is_true(service: dict[str, Any], type_: str) -> bool:
    conditions = service.get("status", {}).get("conditions", [])
    return any(found["type"] == type_ and found["status"] == "True" for found in conditions)


@pytest.fixture(scope="module")
def crowd(
    admin_key: Path, service: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Crowd]:
    place = tmp_path_factory.mktemp("crowd")
    with session_cluster(node=False) as cluster:
        install(cluster)
        nodes = SimulatedNodes(cluster, pods=NUMBER)
        nodes.start()
        names = [f"ns-{number}" for number in range(NAMESPACES)]
        for name in names:
            cluster.kubectl("create", "namespace", name)
        account = account_file(cluster, place / "kubeconfig")
        crowd = Crowd(cluster, nodes, lambda *a, **k: launch_operator(account, admin_key, *a, **k), place)
        for index, name in enumerate(names):
            wanted = [service(f"chat-{number}") for number in range(index, NUMBER, NAMESPACES)]
            nodes.create(INFERENCE_SERVICES.path(name), wanted)
        yield crowd
        for operator in crowd.started:
            operator.end()
        nodes.stop()
        print("\n".join(f"{name}: {value}" for name, value in crowd.figures.items()))


@pytest.fixture(scope="module")
def operator(crowd: Crowd) -> OperatorProcess:
    """Started where all services are there already."""
    began_s = time.monotonic()
    operator = crowd.start()
    operator.wait_ready()
    wait_for(lambda: crowd.are_all("Accepted"), within_s=4 * WITHIN_S)
    crowd.figures["reconciled"] = f"{time.monotonic() - began_s:.1f} s"
    wait_for(lambda: crowd.are_all("Ready"), within_s=4 * WITHIN_S)
    crowd.figures["ready"] = f"{time.monotonic() - began_s:.1f} s"
    return operator


@dataclass(frozen=True)
class Cost:
    """What a process used over a while."""

    core_ratio: float
    peak_mb: float
    lag_p99_s: float
    writes: float
    reconciles: float


def cost_of(operator: OperatorProcess, seconds: float) -> Cost:
    def cpu_s() -> float:
        fields = Path(f"/proc/{operator.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def counts() -> tuple[float, float]:
        return (
            operator.metric("headrace_operator_writes_total"),
            operator.metric("headrace_operator_reconciles_total"),
        )

    lags, (writes, reconciles) = _lags(operator), counts()
    began_s, used_s = time.monotonic(), cpu_s()
    time.sleep(seconds)
    ratio = (cpu_s() - used_s) / (time.monotonic() - began_s)
    more = {edge: count - lags[edge] for edge, count in _lags(operator).items()}
    now = counts()
    memory = Path(f"/proc/{operator.process.pid}/status").read_text()
    peak_kb = next(line for line in memory.splitlines() if line.startswith("VmHWM")).split()[1]
    return Cost(ratio, int(peak_kb) / 1024, _p99(more), now[0] - writes, now[1] - reconciles)


def _lags(operator: OperatorProcess) -> dict[float, float]:
    name = "headrace_operator_loop_lag_seconds_bucket{le="
    lines = [line for line in operator.get("/metrics").splitlines() if line.startswith(name)]
    return {float(line.split('"')[1]): float(line.rpartition(" ")[2]) for line in lines}


def _p99(cumulative: dict[float, float]) -> float:
    """The edge below which 99 of 100 lie."""
    wanted = 0.99 * cumulative[float("inf")]
    return next(edge for edge, count in sorted(cumulative.items()) if count >= wanted)


def test_all_are_reconciled_within_a_minute_for_a_thousand(crowd: Crowd, operator: OperatorProcess) -> None:
    assert float(crowd.figures["reconciled"].split()[0]) < WITHIN_S
    assert operator.metric('headrace_operator_reconciles_total{result="Bug"}') == 0


def test_a_steady_crowd_costs_little_and_nothing_is_written(crowd: Crowd, operator: OperatorProcess) -> None:
    wait_for(lambda: cost_of(operator, 2.0).writes == 0, within_s=60)
    before = crowd.versions()
    cost = cost_of(operator, STEADY_S)
    crowd.figures["steady"] = (
        f"{100 * cost.core_ratio:.1f} % of a core, {cost.reconciles / STEADY_S:.0f} reconciles a second, "
        f"{cost.peak_mb:.0f} MB at most, loop late by {1000 * cost.lag_p99_s:.0f} ms at most (p99)"
    )
    assert cost.reconciles >= NUMBER or NUMBER < 1000, "each was looked at"
    assert crowd.versions() == before
    assert cost.lag_p99_s <= 0.1
    assert cost.peak_mb < 250
    assert cost.core_ratio < 0.05


def test_a_restart_converges_and_rewrites_nothing(crowd: Crowd, operator: OperatorProcess) -> None:
    before = crowd.versions()
    began_s = time.monotonic()
    assert operator.stop() == 0
    fresh = crowd.start()
    fresh.wait_ready()
    wait_for(lambda: fresh.metric("headrace_operator_reconciles_total") >= NUMBER, within_s=WITHIN_S)
    crowd.figures["restarted"] = f"{time.monotonic() - began_s:.1f} s"
    assert fresh.metric("headrace_operator_writes_total") == 0
    assert crowd.versions() == before
