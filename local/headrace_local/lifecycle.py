"""Bringing a cluster up and taking it down, from any state that a crash may have left.

A cluster whose daemons all live is joined. One that lost any is swept away and made anew: it is made for
trying, and from nothing it stands in seconds, while what a half-dead one remembers would have to be
mistrusted.
"""

import dataclasses
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from headrace_local import cgroups, network
from headrace_local.binaries import Binaries, ensure_binaries
from headrace_local.bringup import CONTROL_PLANE, NODE, start_control_plane, start_node
from headrace_local.cache import exclusively
from headrace_local.cluster import Cluster
from headrace_local.dev_runtime import Environment
from headrace_local.missing import require, require_linux_root
from headrace_local.network import Addresses
from headrace_local.processes import Daemons, Process
from headrace_local.progress import Phases
from headrace_local.sandbox import remove_mount_points
from headrace_local.state import (
    DEFAULT_NAME,
    Description,
    State,
    known_clusters,
    state_of,
)

MACHINE_LOCK = Path("/run/lock/headrace-clusters.lock")
"""Not in the cache: clusters of two caches share the machine's addresses, and one is made at a time."""

__all__ = ["DEFAULT_NAME", "daemons_of", "dead_daemons", "down", "find_cluster", "take_down_abandoned", "up"]


def up(
    name: str = DEFAULT_NAME, *, node: bool = True, phases: Phases | None = None, owner: Process | None = None
) -> Cluster:
    """The cluster called `name`, standing: joined, deepened by its node, or made.

    With an `owner`, the cluster is one that `take_down_abandoned` ends once that process is gone.
    Raises `Missing` for what the machine lacks, before anything is built, and `ClusterError` for a failure.
    """
    require(node=node)
    if node:
        Environment.current().require_readable()
    phases = phases or Phases(quiet=True)
    state = state_of(name)
    binaries = ensure_binaries(phases)
    with _alone(phases):
        cluster = _find(state)
        if cluster is None:
            cluster = _make(state, binaries, phases, owner)
        description = state.description()
        assert description is not None, "a cluster that stands is described"
        if node and not description.node:
            with _starting(state, dataclasses.replace(description, node=True)), phases.phase("node"):
                start_node(cluster)
    return cluster


def down(name: str = DEFAULT_NAME, *, phases: Phases | None = None) -> bool:
    """Take a cluster down and remove all of it, whatever state it is in; False when there was none."""
    require_linux_root()
    phases = phases or Phases(quiet=True)
    state = state_of(name)
    with _alone(phases):
        existed = state.directory.exists()
        with phases.phase(f"taking down {name}") if existed else nullcontext():
            _sweep(state)
    return existed


def find_cluster(name: str = DEFAULT_NAME) -> Cluster | None:
    """The cluster called `name` if it stands and all of its daemons live."""
    return _find(state_of(name))


def take_down_abandoned() -> list[str]:
    """Take down the clusters whose owners ended without doing so; their names."""
    abandoned = []
    for state in known_clusters():
        description = state.description()
        if description is None or description.owner is None:
            continue
        if not Process("owner", *description.owner).alive:
            down(state.name)
            abandoned.append(state.name)
    return abandoned


def daemons_of(state: State) -> Daemons:
    return Daemons(state.records, state.logs, cgroups.joined_by_daemons(state.tag))


def dead_daemons(state: State, description: Description) -> list[str]:
    """The names of the daemons that the cluster should have and that do not run."""
    alive = {process.name for process in daemons_of(state).all() if process.alive}
    expected = (*CONTROL_PLANE, *NODE) if description.node else CONTROL_PLANE
    return [name for name in expected if name not in alive]


def _find(state: State) -> Cluster | None:
    description = state.description()
    if description is None or not description.stands or dead_daemons(state, description):
        return None
    binaries, addresses = Binaries(Path(description.binaries)), Addresses(description.index)
    return Cluster(state, addresses, binaries, daemons_of(state))


def _make(state: State, binaries: Binaries, phases: Phases, owner: Process | None) -> Cluster:
    before = state.description()
    if before is not None:
        dead = ", ".join(dead_daemons(state, before)) or "its start"
        phases.note(f"{state.name} is made anew, for parts of it had ended ({dead})")
    _sweep(state)
    others = [other.description() for other in known_clusters()]
    taken = {description.index for description in others if description is not None}
    addresses = network.free_addresses(network.routed_networks(), taken)
    owned = (owner.pid, owner.start_ticks) if owner else None
    cluster = Cluster(state, addresses, binaries, daemons_of(state))
    state.make()
    with _starting(state, Description(addresses.index, str(binaries.directory), owner=owned)):
        cgroups.create(state.tag)
        with phases.phase("control plane"):
            start_control_plane(cluster)
    return cluster


@contextmanager
def _starting(state: State, description: Description) -> Iterator[None]:
    """Describe the cluster as standing once the block has ended well; end its processes if it has not."""
    state.describe(dataclasses.replace(description, stands=False))
    try:
        yield
    except BaseException:
        # The logs stay to be read; the next start sweeps them.
        _end(state)
        raise
    state.describe(dataclasses.replace(description, stands=True))


def _sweep(state: State) -> None:
    """Remove everything of a cluster, from the machine and from the disk."""
    _end(state)
    remove_mount_points(state.mount_points)
    if state.directory.exists():
        shutil.rmtree(state.directory)


def _end(state: State) -> None:
    """End what the cluster started, and take away its link and cgroup. Its mounts end with its processes."""
    for process in daemons_of(state).all():
        process.kill()
    cgroups.kill(state.tag)
    network.disconnect(state.link)
    cgroups.remove(state.tag)


@contextmanager
def _alone(phases: Phases) -> Iterator[None]:
    waiting = "another start or end of a cluster is under way: waiting for it"
    with exclusively(MACHINE_LOCK, waiting=lambda: phases.note(waiting)):
        yield
