"""Two operators, of which the one that leads is killed, or stopped for a while, at one of its writes: what it
left half done the other one ends, and never do both write.
"""

import signal
import time

import pytest
from api_audit import reigns
from eventually import eventually
from least_service import service
from stopped_leader import AtWrite

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ENOUGH = 30
"""More writes than a new service needs."""
STOPPED_S = 30.0
"""Nearly four times as long as the lease lasts."""
CHILDREN = (
    "deployments",
    "services",
    "configmaps",
    "serviceaccounts",
    "networkpolicies",
    "poddisruptionbudgets",
)


def children_of(namespace, name):
    """What each kind has of the service, by names as if it was called `chat`."""
    selector = f"headrace.dev/inferenceservice={name}"
    found = [child for kind in CHILDREN for child in namespace.find(kind, selector)]
    return sorted((child["kind"], child["metadata"]["name"].replace(name, "chat")) for child in found)


def has_every_kind(namespace, name):
    found = children_of(namespace, name)
    return found if len({kind for kind, _ in found}) == len(CHILDREN) else None


def is_observed(namespace, name):
    found = namespace.get("infs", name)
    return found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]


def wholeness(namespace, name, children):
    """A check: whether the service has its status and those children."""

    def is_whole():
        return namespace.condition(name, "Ready") is not None and children_of(namespace, name) == children

    return is_whole


def test_a_leader_stopped_in_the_middle_of_a_write_is_followed(stopped):
    """What it has sent arrives, what it had still to send does the other one."""
    eventually(lambda: stopped.successor.leads)
    eventually(lambda: has_every_kind(stopped.place, "chat"))
    eventually(lambda: is_observed(stopped.place, "chat"))
    assert stopped.fault.hits == 2
    assert reigns(stopped.record()) == [stopped.first_writer, stopped.second_writer]


def test_killed_at_one_write_after_another_of_a_new_service(namespace, start_behind_proxy, proxy):
    """SIGKILL at the first write, at the third, and so on, until a service needs no more; of these every
    second one still arrives. Each time another operator, which has stood by, ends what was begun. Its wait
    for the lease is cut short.
    """
    leader = start_behind_proxy()
    eventually(lambda: leader.leads)
    namespace.apply(service("whole"))
    eventually(lambda: namespace.condition("whole", "Ready"))
    children = eventually(lambda: has_every_kind(namespace, "whole"))
    for turn, number in enumerate(range(1, ENOUGH, 2)):
        standby, name = start_behind_proxy(), f"chat-{number}"
        is_whole = wholeness(namespace, name, children)
        with proxy.having(AtWrite(number, leader, signal.SIGKILL, arrives=turn % 2 == 1)) as fault:
            namespace.apply(service(name))
            eventually(lambda fault=fault, is_whole=is_whole: fault.done.is_set() or is_whole())
        if not fault.done.is_set():
            assert number > len(children), "each child and the status is a write"
            break
        leader.process.wait(30)
        namespace.objects.delete("lease", "headrace-system", "headrace-operator")
        eventually(is_whole)
        eventually(lambda standby=standby: standby.leads)
        leader = standby
    else:
        pytest.fail("a service is written to without end")
    assert leader.metric('headrace_operator_reconciles_total{result="Bug"}') == 0


def test_it_wakes_after_half_a_minute_and_writes_nothing_until_it_leads_again(stopped):
    """By the API server's own record never do two write, though it was in the middle of something."""
    place, woken = stopped.place, stopped.leader
    eventually(lambda: time.monotonic() >= stopped.since_s + STOPPED_S)
    before, asked = len(stopped.record()), stopped.proxy.calls["get", "leases"]
    woken.process.send_signal(signal.SIGCONT)
    eventually(lambda: stopped.proxy.calls["get", "leases"] > asked + 2)
    place.patch("infs", "chat", {"spec": {"slo": {"ttft": "2s"}}})
    eventually(lambda: is_observed(place, "chat"))
    assert {write.writer for write in stopped.record()[before:]} == {stopped.second_writer}
    assert not woken.leads
    assert stopped.successor.stop() == 0
    eventually(lambda: woken.leads)
    place.patch("infs", "chat", {"spec": {"slo": {"ttft": "3s"}}})
    eventually(lambda: is_observed(place, "chat"))
    first, second = stopped.first_writer, stopped.second_writer
    assert reigns(stopped.record()) == [first, second, first]
