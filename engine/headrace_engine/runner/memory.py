"""How much memory this process may still take: the machine's, or its control group's if that is less."""

from collections.abc import Iterator
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")


def available_bytes(proc: Path = Path("/proc"), cgroups: Path = _CGROUP_ROOT) -> int:
    """Bytes that can be allocated without swapping and without meeting a control group's limit."""
    headrooms = [_headroom(group) for group in _groups(proc, cgroups)]
    return max(0, min([_mem_available(proc), *(room for room in headrooms if room is not None)]))


def _mem_available(proc: Path) -> int:
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{proc / 'meminfo'} has no MemAvailable")


def _groups(proc: Path, cgroups: Path) -> Iterator[Path]:
    """This process's control group (version 2) and those above it."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::/"):
            group = (cgroups / line.removeprefix("0::/")).resolve()
            while group.is_relative_to(cgroups):
                yield group
                group = group.parent


def _headroom(group: Path) -> int | None:
    try:
        limit = (group / "memory.max").read_text().strip()
        if limit == "max":
            return None
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # Clean page cache is given back under pressure: it does not count as taken.
        taken = int((group / "memory.current").read_text()) - int(stat.get("inactive_file", 0))
        return int(limit) - taken
    except (OSError, ValueError):
        return None
