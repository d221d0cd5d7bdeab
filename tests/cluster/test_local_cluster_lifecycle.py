"""A cluster ends without a trace, and starts again from whatever a crash has left."""

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace_local import cgroups, lifecycle
from headrace_local.containerd import DEV_RUNTIME
from headrace_local.probe import node_is_ready
from headrace_local.processes import Process, current_process
from headrace_local.pytest_plugin import require_machine
from headrace_local.sandbox import FIXED_DIRECTORIES
from headrace_local.state import state_of
from headrace_local.status import read_status

pytestmark = [pytest.mark.cluster, pytest.mark.node]


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a cluster of this test alone."""
    require_machine()
    name = f"test-{secrets.token_hex(3)}"
    yield name
    lifecycle.down(name)


def start(name: str, *, node: bool = True):
    return lifecycle.up(name, node=node, owner=current_process("owner"))


def traces(name: str) -> dict[str, object]:
    """Everything on the machine that belongs to the cluster."""
    state = state_of(name)
    links = subprocess.run(
        ["ip", "link", "show", state.link], check=False, capture_output=True, text=True
    ).stdout
    routes = subprocess.run(["ip", "route", "show"], check=True, capture_output=True, text=True).stdout
    return {
        "processes": cgroups.processes(state.tag),
        "cgroups": list(cgroups.ROOT.glob(f"*/{state.tag}")),
        "link": links,
        "routes": [line for line in routes.splitlines() if state.link in line],
        "mounts": [
            line
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if str(state.directory) in line
        ],
        "files": list(state.directory.glob("*")),
    }


NOTHING = {"processes": set(), "cgroups": [], "link": "", "routes": [], "mounts": [], "files": []}


def kill_everything(name: str) -> None:
    for pid in cgroups.processes(state_of(name).tag):
        os.kill(pid, signal.SIGKILL)
    _until(lambda: not cgroups.processes(state_of(name).tag))


@pytest.mark.slow
def test_it_stands_again_after_everything_was_killed_and_ends_without_a_trace(name, pod_manifest):
    machine_before = _machine()
    cluster = start(name)
    pod = pod_manifest("victim", container={"command": ["sleep", "600"]}, runtimeClassName=DEV_RUNTIME)
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/victim", "--timeout=180s")

    kill_everything(name)
    assert lifecycle.find_cluster(name) is None
    assert read_status(name).state == "broken"

    again = start(name)
    assert node_is_ready(again.api.get(f"/api/v1/nodes/{name}"))
    again.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    again.kubectl("wait", "--for=condition=Ready", "pod/victim", "--timeout=180s")

    assert lifecycle.down(name)
    assert traces(name) == NOTHING
    assert _machine() == machine_before


def test_a_cluster_that_lost_one_daemon_says_which_and_is_made_anew(name):
    first = start(name, node=False).daemons.all()
    scheduler = next(process for process in first if process.name == "kube-scheduler")
    scheduler.kill()
    _until(lambda: not scheduler.alive)
    status = read_status(name)
    assert (status.state, status.dead) == ("broken", ("kube-scheduler",))

    second = start(name, node=False).daemons.all()
    assert all(process.alive for process in second)
    assert not any(process.alive for process in first)


def test_a_control_plane_gets_its_node_later_and_keeps_its_objects(name):
    cluster = start(name, node=False)
    cluster.kubectl("create", "configmap", "kept")
    deeper = start(name, node=True)
    assert node_is_ready(deeper.api.get(f"/api/v1/nodes/{name}"))
    assert "kept" in deeper.kubectl("get", "configmaps", "-o", "name")


def test_two_clusters_stand_side_by_side(name, control_plane):
    other = start(name, node=False)
    assert other.url != control_plane.url
    other.kubectl("create", "configmap", "only-here")
    assert "only-here" not in control_plane.kubectl("get", "configmaps", "-o", "name")

    lifecycle.down(name)
    still_its_own = control_plane.sandbox.run("cat", "/proc/self/mounts")
    assert all(f" {directory} " in still_its_own for directory in FIXED_DIRECTORIES)


def test_a_cluster_whose_session_was_killed_is_taken_down_by_the_next(name):
    session = subprocess.Popen(["sleep", "0"])
    owner = Process("owner", session.pid, start_ticks=1)
    session.wait()
    lifecycle.up(name, node=False, owner=owner)
    # Another session that starts just now may be at it already.
    lifecycle.take_down_abandoned()
    _until(lambda: traces(name) == NOTHING)


def test_a_cluster_that_never_was_is_down(name):
    assert lifecycle.down(name) is False
    assert read_status(name).state == "down"


def _until(met: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline_s, "not met in time"
        time.sleep(0.02)


def _machine() -> dict[str, object]:
    """What a careless node leaves on a machine. Another cluster may come or go meanwhile, and with it empty
    directories that nodes have fixed names for.
    """
    places = [*FIXED_DIRECTORIES, "/run/netns", "/run/containerd"]
    files = {place: sorted(map(str, Path(place).rglob("*"))) for place in places}
    mounts = [
        line for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[1] in places
    ]
    tables = subprocess.run(["nft", "list", "tables"], check=True, capture_output=True, text=True).stdout
    return {"files": files, "mounts": mounts, "firewall": tables}
