"""Two operators, of which the one that leads is killed, or stopped for a while, at one of its writes: what it
left half done the other one ends, and never do both write.
"""

import signal
import threading
import time

import pytest
from aiohttp import web
from fault_proxy import Fault

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ENOUGH = 30
"""More writes than a new service needs."""


def is_write(call):
    return call.verb in ("patch", "create") and not call.resource.startswith("leases")


class AtWrite(Fault):
    """At the write of that number the leader gets a signal; the write itself still arrives, or is lost."""

    def __init__(self, number, operator, signal_, *, arrives=True):
        super().__init__(concerns=is_write)
        self.number, self.operator, self.signal, self.arrives = number, operator, signal_, arrives
        self.done = threading.Event()
        self.answer = self._answer

    async def _answer(self, _call):
        if self.hits != self.number:
            return None
        self.operator.process.send_signal(self.signal)
        self.done.set()
        return None if self.arrives else web.Response(status=500, text="lost with its sender")


def children_of(namespace, name):
    found = namespace.kubectl(
        "get",
        "deployments,services,configmaps,serviceaccounts,networkpolicies,poddisruptionbudgets",
        "-l",
        f"headrace.dev/inferenceservice={name}",
        "-o",
        "jsonpath={range .items[*]}{.kind}/{.metadata.name} {end}",
    )
    return sorted(found.replace(name, "chat").split())


def wholeness(namespace, name, children):
    """A check: whether the service has its status and those children."""

    def is_whole():
        return namespace.condition(name, "Ready") is not None and children_of(namespace, name) == children

    return is_whole


def lease_of(namespace):
    return ("-n", "headrace-system", "lease", "headrace-operator")


def test_killed_at_one_write_after_another_of_a_new_service(
    namespace, start_behind_proxy, proxy, service, eventually
):
    """SIGKILL at the first write, at the third, and so on, until a service needs no more; of these every
    second one still arrives. Each time another operator, which has stood by, ends what was begun. Its wait
    for the lease is cut short.
    """
    leader = start_behind_proxy()
    eventually(lambda: leader.leads)
    namespace.apply(service("whole"))
    eventually(lambda: namespace.condition("whole", "Ready"))
    children = eventually(lambda: children_of(namespace, "whole"))
    for turn, number in enumerate(range(1, ENOUGH, 2)):
        standby, name = start_behind_proxy(), f"chat-{number}"
        is_whole = wholeness(namespace, name, children)
        with proxy.having(AtWrite(number, leader, signal.SIGKILL, arrives=turn % 2 == 1)) as fault:
            namespace.apply(service(name))
            eventually(lambda fault=fault, is_whole=is_whole: fault.done.is_set() or is_whole())
        if not fault.done.is_set():
            assert number > len(children), "each child and the status is a write"
            break
        leader.process.wait(5)
        namespace.cluster.kubectl("delete", *lease_of(namespace))
        eventually(is_whole)
        eventually(lambda standby=standby: standby.leads)
        leader = standby
    else:
        pytest.fail("a service is written to without end")
    assert leader.metric('headrace_operator_reconciles_total{result="Bug"}') == 0


def test_stopped_in_the_middle_of_a_write_it_writes_no_more(
    namespace, start_operator, start_behind_proxy, proxy, service, eventually
):
    """For twice as long as the lease lasts: what it has sent arrives, what it had still to send does not."""
    frozen = start_behind_proxy()
    eventually(lambda: frozen.leads)
    successor = start_operator()
    with proxy.having(AtWrite(2, frozen, signal.SIGSTOP)) as fault:
        namespace.apply(service())
        assert fault.done.wait(10)
        eventually(lambda: successor.leads, within_s=20)
        eventually(lambda: namespace.condition("chat", "Ready"))
        assert fault.hits == 2
        time.sleep(5)
        frozen.process.send_signal(signal.SIGCONT)
        eventually(lambda: frozen.get("/readyz"))
        time.sleep(3)
        assert fault.hits == 2, "a leader of old wrote beside the new one"
    assert not frozen.leads
    assert successor.leads
