"""The cgroup of one cluster: whatever its daemons start, containers included, is found and ended by it.

cgroup v1 has one tree a controller; daemons join only the tree of `FOLLOWED` there (so that their memory
stays accounted to who started them) and pods, by the kubelet, all of them. cgroup v2 has one tree.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from headrace_local.missing import Missing

ROOT = Path("/sys/fs/cgroup")
FOLLOWED = "freezer"
DAEMONS = "daemons"
V2_CONTROLLERS = ("cpuset", "cpu", "memory", "hugetlb", "pids")
END_TIMEOUT_S = 20.0


def is_unified() -> bool:
    """Whether this machine has cgroup v2 alone."""
    return (ROOT / "cgroup.controllers").exists()


def create(name: str) -> None:
    """Make the cluster's cgroup in every tree; raises `Missing` where the machine does not let anybody."""
    try:
        for tree in _trees():
            (tree / name).mkdir(exist_ok=True)
        if is_unified():
            for directory in (ROOT, ROOT / name):
                _delegate(directory)
            (ROOT / name / DAEMONS).mkdir(exist_ok=True)
        else:
            for inherited in ("cpuset.cpus", "cpuset.mems"):
                (ROOT / "cpuset" / name / inherited).write_text((ROOT / "cpuset" / inherited).read_text())
    except OSError as error:
        raise Missing(f"The local cluster needs cgroups of its own below {ROOT}: {error}.") from error


def joined_by_daemons(name: str) -> Path:
    """The `cgroup.procs` file that a daemon writes itself into."""
    # In v2 a cgroup with controllers for its children may hold no process itself: daemons go one deeper.
    directory = ROOT / name / DAEMONS if is_unified() else ROOT / FOLLOWED / name
    return directory / "cgroup.procs"


def processes(name: str) -> set[int]:
    """The process ids in the cluster's cgroup, at any depth and in any tree."""
    found: set[int] = set()
    for directory in _directories(name):
        try:
            found.update(int(pid) for pid in (directory / "cgroup.procs").read_text().split())
        except OSError:
            continue  # the cgroup ended meanwhile
    return found - {0}


def kill(name: str) -> None:
    """End every process in the cluster's cgroup and what they start meanwhile; TimeoutError if some stay."""
    deadline_s = time.monotonic() + END_TIMEOUT_S
    while remaining := processes(name):
        for pid in remaining:
            _kill(pid)
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"processes that do not end: {sorted(remaining)}")
        time.sleep(0.02)


def remove(name: str) -> None:
    """Remove the cluster's empty cgroup from every tree."""
    deadline_s = time.monotonic() + END_TIMEOUT_S
    while directories := list(_directories(name)):
        for directory in directories:
            try:
                directory.rmdir()
            except OSError:
                if time.monotonic() > deadline_s:
                    raise
        time.sleep(0.01)


def _directories(name: str) -> Iterator[Path]:
    """The cluster's cgroups, children before parents."""
    for tree in _trees():
        for directory, _, _ in os.walk(tree / name, topdown=False):
            yield Path(directory)


def _trees() -> list[Path]:
    """Every tree, once: cpu and cpuacct may be two names of one."""
    if is_unified():
        return [ROOT]
    return sorted({path.resolve() for path in ROOT.iterdir() if path.is_dir()})


def _delegate(directory: Path) -> None:
    for controller in V2_CONTROLLERS:
        if controller in (directory / "cgroup.controllers").read_text().split():
            (directory / "cgroup.subtree_control").write_text(f"+{controller}")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
