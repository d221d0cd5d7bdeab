"""What processes used of the processor, in seconds: a busy machine stretches these less than it does time."""

import os
from collections.abc import Mapping
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def processor_s(pid: int) -> float:
    """User and system time of a process that lives, with its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def processors_used(pids: Mapping[str, int]) -> dict[str, float]:
    return {name: processor_s(pid) for name, pid in pids.items()}


def show(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """The dearest first; a process that was not there before counts from its start."""
    used = {name: now_s - before.get(name, 0.0) for name, now_s in after.items()}
    parts = [f"{name} {used[name]:.1f}" for name in sorted(used, key=used.__getitem__, reverse=True)]
    return f"processor seconds: {sum(used.values()):.1f} ({', '.join(parts)})"
