"""How much memory this process may still take: the machine's, or its control group's if that is less.

Both generations of control groups are read. In a container the path in `/proc` is the host's, and what is
mounted is the container's own group: the walk from that path up to the mount finds it there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_UNLIMITED_BYTES = 1 << 60
"""Version 1 writes the absence of a limit as a number near 2^63."""


@dataclass(frozen=True, slots=True)
class _Files:
    """What one generation calls its files."""

    limit: str
    usage: str
    inactive: str
    """The line of `memory.stat` with the clean page cache that is given back under pressure."""


_VERSION_1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = _Files("memory.max", "memory.current", "inactive_file")


def available_bytes(proc: Path = Path("/proc"), cgroups: Path = _CGROUP_ROOT) -> int:
    """Bytes that can be allocated without swapping and without meeting a control group's limit."""
    headrooms = [_headroom(group, files) for group, files in _groups(proc, cgroups)]
    return max(0, min([_mem_available(proc), *(room for room in headrooms if room is not None)]))


def _mem_available(proc: Path) -> int:
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{proc / 'meminfo'} has no MemAvailable")


def _groups(proc: Path, cgroups: Path) -> Iterator[tuple[Path, _Files]]:
    """This process's control groups with a memory controller, and those above them."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, files = cgroups, _VERSION_2
        elif "memory" in controllers.split(","):
            mount, files = cgroups / "memory", _VERSION_1
        else:
            continue
        group = (mount / path.removeprefix("/")).resolve()
        while group.is_relative_to(mount):
            yield group, files
            group = group.parent


def _headroom(group: Path, files: _Files) -> int | None:
    try:
        limit = (group / files.limit).read_text().strip()
        if limit == "max" or int(limit) >= _UNLIMITED_BYTES:
            return None
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # Clean page cache is given back under pressure: it does not count as taken.
        taken = int((group / files.usage).read_text()) - int(stat.get(files.inactive, 0))
        return int(limit) - taken
    except (OSError, ValueError):
        return None
