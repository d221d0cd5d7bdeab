"""What making the objects of many services costs without an operator:
`python tests/bench/many_services_floor.py [SERVICES [AT_ONCE]]`, with the `PYTHONPATH` of the tests.

The children that the operator would render, and a first status, are applied by a client that does nothing
else, with the operator's own account, to a real control plane whose controllers answer and whose nodes do not
exist. Told are the time, and what each process used of the processor. As root; a thousand take some minutes.
"""

import asyncio
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml
from operator_process import account_file, install
from process_cost import processors_used, show
from simulated_nodes import SimulatedNodes

from headrace_local.cluster import Cluster
from headrace_local.pki import Pki
from headrace_local.pytest_plugin import session_cluster
from headrace_operator.api.parsing import parse
from headrace_operator.api.status import Previous
from headrace_operator.decide.controller import decide
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.settings import Settings
from headrace_operator.kube.client import APPLY_PATCH
from headrace_operator.kube.kinds import INFERENCE_SERVICES, kind_of

SETTINGS = Settings(engine_image="headrace.local/engine:dev", admin_keys='{"keys": []}')
SPEC = {"model": {"uri": "file:///models/tiny"}, "slo": {"ttft": "1s", "window": "30s"}}
NAMESPACES = 10


def service(name: str) -> dict[str, Any]:
    kind = {"apiVersion": INFERENCE_SERVICES.api_version, "kind": INFERENCE_SERVICES.kind}
    return {**kind, "metadata": {"name": name}, "spec": SPEC}


def writes_of(live: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Path and body of all that a new service asks for: its status, then its children."""
    plan = decide(Observation({}, Previous()), parse(live), settings=SETTINGS, now_s=time.time())
    named = {name: live["metadata"][name] for name in ("namespace", "name", "uid")}
    kind = {"apiVersion": INFERENCE_SERVICES.api_version, "kind": INFERENCE_SERVICES.kind}
    yield (
        INFERENCE_SERVICES.path(named["namespace"], named["name"], "status"),
        {**kind, "metadata": named, "status": plan.status},
    )
    for manifest in plan.objects:
        metadata = manifest["metadata"]
        yield kind_of(manifest).path(metadata["namespace"], metadata["name"]), manifest


async def apply_all(cluster: Cluster, account: Path, live: Iterable[Mapping[str, Any]], at_once: int) -> None:
    """Each service's writes in order, `at_once` services side by side."""
    token = yaml.safe_load(account.read_text())["users"][0]["user"]["token"]
    context = ssl.create_default_context(cafile=str(Pki(cluster.state.pki).authority.certificate))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": APPLY_PATCH, "Accept-Encoding": "identity"}
    waiting = iter([list(writes_of(found)) for found in live])
    query = {"fieldManager": "floor", "force": "true"}
    async with aiohttp.ClientSession(
        cluster.url, headers=headers, connector=aiohttp.TCPConnector(ssl=context), trust_env=False
    ) as session:

        async def work() -> None:
            for writes in waiting:
                for path, body in writes:
                    async with session.patch(path, params=query, data=orjson.dumps(body)) as answer:
                        assert answer.status < 300, await answer.text()
                        await answer.read()

        await asyncio.gather(*(work() for _ in range(at_once)))


def main(number: int, at_once: int) -> None:
    with session_cluster(node=False) as cluster, tempfile.TemporaryDirectory() as place:
        install(cluster)
        nodes = SimulatedNodes(cluster, pods=number)
        nodes.start()
        account = account_file(cluster, Path(place) / "kubeconfig")
        for index in range(NAMESPACES):
            name = f"ns-{index}"
            cluster.kubectl("create", "namespace", name)
            names = (f"chat-{each}" for each in range(index, number, NAMESPACES))
            nodes.create(INFERENCE_SERVICES.path(name), [service(name) for name in names])
        live = nodes.objects(INFERENCE_SERVICES.path(None))
        daemons = {daemon.name: daemon.pid for daemon in cluster.daemons.all()} | {"client": os.getpid()}
        before, began_s = processors_used(daemons), time.monotonic()
        asyncio.run(apply_all(cluster, account, live, at_once))
        print(f"{number} services, {at_once} at once: {time.monotonic() - began_s:.1f} s")
        print(show(before, processors_used(daemons)))
        nodes.stop()


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*given, *(100, 8)[len(given) :])
