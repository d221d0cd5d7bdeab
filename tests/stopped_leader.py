"""Operators that get a signal at one of their writes; one that is stopped, and the one that follows it."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from api_audit import Write, writer_of, writes
from eventually import eventually
from fault_proxy import Call, Fault, FaultProxy
from kube_objects import KubeObjects
from operator_process import SYSTEM_NAMESPACE, OperatorProcess, account_file, through
from own_namespace import Namespace

from headrace_local.pki import Pki


def is_write(call: Call) -> bool:
    return call.verb in ("patch", "create") and not call.resource.startswith("leases")


class AtWrite(Fault):
    """At the write of that number the leader gets a signal; the write itself still arrives, or is lost."""

    def __init__(
        self, number: int, operator: OperatorProcess, signal_: signal.Signals, *, arrives: bool = True
    ) -> None:
        super().__init__(concerns=is_write)
        self.number, self.operator, self.signal, self.arrives = number, operator, signal_, arrives
        self.done = threading.Event()
        self.answer = self._answer

    async def _answer(self, _call: Call) -> web.Response | None:
        if self.hits != self.number:
            return None
        self.operator.process.send_signal(self.signal)
        self.done.set()
        return None if self.arrives else web.Response(status=500, text="lost with its sender")


@dataclass(frozen=True, slots=True)
class Stopped:
    """A leader that was stopped in the middle of its second write at `since_s`, and the one that follows it.
    Writers are known by their tokens.
    """

    place: Namespace
    proxy: FaultProxy
    fault: AtWrite
    leader: OperatorProcess
    successor: OperatorProcess
    first_writer: str
    second_writer: str
    since_s: float

    def record(self) -> list[Write]:
        return writes(self.place.cluster, self.place.name)


@contextmanager
def stopped_leader(
    objects: KubeObjects,
    launch: Callable[..., OperatorProcess],
    service: dict[str, Any],
    files: Path,
    **settings: str,
) -> Iterator[Stopped]:
    """Of a namespace of their own, which holds their Lease too: others may lead elsewhere meanwhile."""
    cluster, place = objects.cluster, Namespace.create(objects)
    _share_the_lease(place)
    first, second = (account_file(cluster, files / name) for name in ("first", "second"))
    settings |= {"LEASE_NAMESPACE": place.name, "WATCH_NAMESPACES": place.name}
    proxy = FaultProxy(cluster.url, Pki(cluster.state.pki).authority.certificate)
    with proxy.running():
        by_proxy = str(through(first, proxy.url, files / "by-proxy"))
        leader = launch(files / "leader.log", KUBECONFIG=by_proxy, POD_NAME="leader", **settings)
        successor = None
        try:
            leader.wait_ready()
            eventually(lambda: leader.leads)
            successor = launch(files / "next.log", KUBECONFIG=str(second), POD_NAME="successor", **settings)
            successor.wait_ready()
            with proxy.having(AtWrite(2, leader, signal.SIGSTOP)) as fault:
                place.apply(service)
                assert fault.done.wait(60), "it wrote less than twice"
                since_s, writers = time.monotonic(), (writer_of(first), writer_of(second))
                yield Stopped(place, proxy, fault, leader, successor, *writers, since_s)
        finally:
            for operator in filter(None, (leader, successor)):
                operator.end()
            place.leave()


def _share_the_lease(place: Namespace) -> None:
    """Gives operators their right on the Lease in that namespace too."""
    for kind in ("role", "rolebinding"):
        found = place.objects.get(kind, SYSTEM_NAMESPACE, "headrace-operator-lease")
        assert found is not None
        place.apply(found | {"metadata": {"name": found["metadata"]["name"]}})
