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
from fault_proxy import Call, Fault, FaultProxy, answering, erring, hanging, replaying

pytestmark = pytest.mark.cluster

LASTS_S = 2.5


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


@pytest.fixture
def served(
    operator: Any, namespace: Any, service: Callable[..., Any], eventually: Callable[..., Any]
) -> Iterator[None]:
    """A service that was served before the fault and is as it was after it."""
    namespace.apply(service("before"))
    eventually(lambda: namespace.condition("before", "Ready"))
    was = eventually(lambda: namespace.get("deployment", "before-engine"))
    yield
    now = namespace.get("deployment", "before-engine")
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
@pytest.mark.usefixtures("served")
def test_a_service_made_meanwhile_is_served_once_it_is_over(
    proxy: FaultProxy,
    namespace: Any,
    service: Callable[..., Any],
    eventually: Callable[..., Any],
    fault: str,
) -> None:
    with FAULTS[fault](proxy) as put_in:
        proxy.drop()
        namespace.apply(service("meanwhile"))
        time.sleep(LASTS_S)
    assert put_in is None or put_in.hits > 0, "the fault was met"
    eventually(lambda: namespace.get("deployment", "meanwhile-engine"), within_s=30)
    eventually(lambda: namespace.condition("meanwhile", "Ready"))
