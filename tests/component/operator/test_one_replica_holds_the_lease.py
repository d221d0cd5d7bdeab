"""Two electors, a real client, a real HTTP server; the clock is the test's."""

import asyncio
from dataclasses import replace

import pytest
from aiohttp import web

from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.elector import Elector, LeaseTiming
from headrace_operator.kube.events import EventRecorder
from headrace_operator.kube.leadership import Leadership

PATH = "/apis/coordination.k8s.io/v1/namespaces/headrace-system/leases/headrace-operator"
TIMING = LeaseTiming(duration_s=15, renew_deadline_s=60, retry_s=2, margin_s=2)


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Replica:
    def __init__(self, client: KubeClient, name: str, clock: Clock) -> None:
        self.leadership = Leadership(clock)
        self.elector = Elector(
            client=client,
            leadership=self.leadership,
            namespace="headrace-system",
            name="headrace-operator",
            me=name,
            clock=clock,
            timing=TIMING,
            recorder=EventRecorder(client, instance=name, clock=clock),
        )

    @property
    def leads(self) -> bool:
        return self.leadership.valid()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def one(client: KubeClient, clock: Clock) -> Replica:
    return Replica(client, "one", clock)


@pytest.fixture
def two(client: KubeClient, clock: Clock) -> Replica:
    return Replica(client, "two", clock)


async def test_who_leads_is_an_event_on_the_lease_when_it_changes(api_server, one, two, clock):
    for _ in range(3):
        await one.elector.step()
        await two.elector.step()
    events = [path for path in api_server.objects if "/events/" in path]
    [told] = [api_server.objects[path] for path in events]
    assert (told["reason"], told["message"]) == ("LeaderChanged", "one writes now")
    assert told["involvedObject"]["kind"] == "Lease"
    clock.now_s += 16
    await two.elector.step()
    assert two.leads
    assert len([path for path in api_server.objects if "/events/" in path]) == 2


async def test_the_first_creates_the_lease_and_the_second_stands_by(api_server, one, two):
    await one.elector.step()
    await two.elector.step()
    assert (one.leads, two.leads) == (True, False)
    spec = api_server.objects[PATH]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("one", 15, 1)
    assert spec["renewTime"].endswith("Z")


async def test_of_two_that_race_one_wins(api_server, one, two):
    await asyncio.gather(one.elector.step(), two.elector.step())
    assert one.leads != two.leads


async def test_a_renewed_lease_is_not_taken_however_long_it_lasts(clock, one, two):
    for _ in range(20):
        await one.elector.step()
        await two.elector.step()
        clock.now_s += 2
    assert (one.leads, two.leads) == (True, False)


async def test_a_stopped_leader_stops_believing_before_another_takes_over(clock, one, two):
    await one.elector.step()
    await two.elector.step()
    clock.now_s += 13
    assert not one.leads, "the process was stopped, nothing renewed, its belief ended by itself"
    await two.elector.step()
    assert not two.leads
    clock.now_s += 2
    await two.elector.step()
    assert two.leads
    await one.elector.step()
    assert not one.leads, "back again it sees that the lease is another's"


async def test_a_standby_that_has_just_started_waits_a_whole_duration_by_its_own_clock(
    api_server, clock, one, client
):
    await one.elector.step()
    clock.now_s += 60
    two = Replica(client, "two", clock)
    await two.elector.step()
    assert not two.leads, "how old the record is cannot be told from the times in it"
    clock.now_s += 15
    await two.elector.step()
    assert two.leads
    assert api_server.objects[PATH]["spec"]["leaseTransitions"] == 2


async def test_a_released_lease_is_taken_at_once(api_server, one, two):
    await one.elector.step()
    await two.elector.step()
    await one.elector.release()
    assert not one.leads
    assert api_server.objects[PATH]["spec"]["holderIdentity"] == ""
    await two.elector.step()
    assert two.leads


async def test_a_standby_releases_nothing(api_server, one, two):
    await one.elector.step()
    await two.elector.step()
    await two.elector.release()
    assert api_server.objects[PATH]["spec"]["holderIdentity"] == "one"


@pytest.mark.parametrize("code", [403, 500, 503])
async def test_errors_end_the_lead_by_the_clock_and_not_before(api_server, clock, one, code):
    await one.elector.step()

    async def failing(_request: web.Request) -> web.Response:
        return web.Response(status=code, text="no")

    api_server.fault = failing
    clock.now_s += 10
    await one.elector.step()
    assert one.leads
    clock.now_s += 3
    await one.elector.step()
    assert not one.leads
    api_server.fault = None
    await one.elector.step()
    assert one.leads


async def test_a_call_that_hangs_is_given_up_and_counts_from_its_start(api_server, clock, one, monkeypatch):
    await one.elector.step()

    async def hanging(_request: web.Request) -> None:
        clock.now_s += 13
        await asyncio.Event().wait()

    api_server.fault = hanging
    monkeypatch.setattr(one.elector, "_timing", replace(TIMING, renew_deadline_s=0.1))
    await one.elector.step()
    assert clock.now_s > 1000, "it was called"
    assert not one.leads


async def test_a_slow_renewal_is_worth_what_is_left_of_it(api_server, clock, one):
    async def slow(request: web.Request) -> None:
        clock.now_s += 4 if "leases" in request.path else 0

    api_server.fault = slow
    await one.elector.step()
    assert one.leads
    assert one.leadership.remaining_s() == 15 - 2 - 2 * 4


async def test_losing_the_race_for_a_renewal_ends_the_lead(api_server, one):
    await one.elector.step()

    async def interfere(request: web.Request) -> None:
        if request.method == "PUT":
            live = api_server.objects[PATH]
            live["metadata"]["resourceVersion"] = "9999"

    api_server.fault = interfere
    await one.elector.step()
    assert not one.leads
