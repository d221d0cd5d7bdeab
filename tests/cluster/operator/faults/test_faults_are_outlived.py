"""The operator behind a proxy that does to it what API servers and networks do.

In each story a service was served before. Whatever happens, its Deployment stays as it is, a service made
meanwhile is served afterwards, and the process neither ends nor reports a bug.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from fault_proxy import Call, Fault, FaultProxy, answering, erring, hanging, replaying
from kube_objects import KubeObjects
from least_service import service
from own_namespace import Namespace

pytestmark = pytest.mark.cluster

LASTS_S = 2.0


@pytest.fixture(scope="module")
def operator(
    launch: Callable[..., Any], behind_proxy: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """One process for every fault: so each begins where the one before it left it."""
    place = tmp_path_factory.mktemp("operator")
    kubeconfig = str(behind_proxy(place / "kubeconfig"))
    quick = {"RELIST_INTERVAL_S": "5", "API_TIMEOUT_S": "1.5"}
    operator = launch(place / "operator.log", KUBECONFIG=kubeconfig, **quick)
    operator.wait_ready()
    yield operator
    operator.stop()
    operator.end()


@pytest.fixture(scope="module")
def place(objects: KubeObjects) -> Iterator[Namespace]:
    """One namespace for every fault."""
    place = Namespace.create(objects)
    yield place
    place.leave()


@pytest.fixture(scope="module")
def served(operator: Any, place: Namespace) -> dict[str, Any]:
    """The Deployment of a service that was served before any fault."""
    place.apply(service("before"))
    eventually(lambda: place.condition("before", "Ready"))
    found: dict[str, Any] = eventually(lambda: place.get("deployment", "before-engine"))
    return found


@pytest.fixture(autouse=True)
def unharmed(operator: Any, place: Namespace, served: dict[str, Any]) -> Iterator[None]:
    """What was served before a fault is as it was after it."""
    yield
    was, now = served, place.get("deployment", "before-engine")
    assert now["metadata"]["uid"] == was["metadata"]["uid"]
    assert now["spec"] == was["spec"]
    assert operator.process.poll() is None
    assert operator.metric('headrace_operator_reconciles_total{result="Bug"}') == 0


def conflicts() -> Fault:
    """Of three writes, one meets somebody else's."""
    number = itertools.count()
    return answering(409, "Conflict", concerns=lambda call: call.verb == "patch" and next(number) % 3 == 0)


def half_an_answer() -> Fault:
    fault = answering(200, "Success", concerns=lambda call: call.verb in ("list", "get", "patch"))
    whole = fault.answer
    assert whole is not None

    async def answer(call: Call) -> Any:
        full: Any = await whole(call)
        full.body = full.body[: len(full.body) // 2]
        return full

    fault.answer = answer
    return fault


PLEASE_WAIT = {"Retry-After": "1"}
FAULTS: dict[str, Callable[[FaultProxy], AbstractContextManager[Any]]] = {
    "nobody listens": lambda proxy: proxy.refusing(),
    "unavailable": lambda proxy: proxy.having(answering(503, "ServiceUnavailable")),
    "an error of its own": lambda proxy: proxy.having(answering(500, "InternalError")),
    "too many requests": lambda proxy: proxy.having(answering(429, "TooManyRequests", headers=PLEASE_WAIT)),
    "no answer": lambda proxy: proxy.having(hanging()),
    "slow answers": lambda proxy: proxy.having(hanging(seconds=0.7)),
    "a storm of conflicts": lambda proxy: proxy.having(conflicts()),
    "half an answer": lambda proxy: proxy.having(half_an_answer()),
    "events twice and out of order": lambda proxy: proxy.having(replaying()),
    "a history that is gone": lambda proxy: proxy.having(erring(410, "Expired")),
    "a token that cannot be checked": lambda proxy: proxy.having(answering(401, "Unauthorized")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_service_made_meanwhile_is_served_once_it_is_over(
    proxy: FaultProxy, place: Namespace, fault: str
) -> None:
    name = f"meanwhile-{list(FAULTS).index(fault)}"
    with FAULTS[fault](proxy) as put_in:
        proxy.drop()
        place.apply(service(name))
        eventually(lambda: put_in is None or put_in.hits > 0)
        time.sleep(LASTS_S)
    eventually(lambda: place.get("deployment", f"{name}-engine"))
    eventually(lambda: place.condition(name, "Ready"))
