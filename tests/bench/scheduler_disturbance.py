"""What else a machine did while something was measured on it: a figure without that cannot be judged.

CPU time leaves out what others take of a core, but not what they take of its caches, its memory and its
clock, nor, on a virtual machine that is not told, what the host takes.
"""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE_COLUMNS, _STEAL_COLUMN = (3, 4), 7


@dataclass(frozen=True)
class Disturbance:
    """Between two moments."""

    stolen_cpus: float | None
    """Processors that the host gave to others; None where the kernel does not say."""
    other_cpus: float | None
    """Processors that other processes of this machine kept busy."""
    switches_per_s: float
    """How often this process was taken off its processor."""

    def __str__(self) -> str:
        shown = [
            "?" if cpus is None else f"{max(0.0, cpus):.2f}" for cpus in (self.stolen_cpus, self.other_cpus)
        ]
        return f"{' | '.join(shown)} | {self.switches_per_s:.0f}"


class Watch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._began_s, self._own_s = time.monotonic(), time.process_time()
        self._switches, self._ticks = _switches(), _ticks()

    def seen(self) -> Disturbance:
        """What happened until now."""
        elapsed_s, own_s = time.monotonic() - self._began_s, time.process_time() - self._own_s
        switches_per_s = (_switches() - self._switches) / elapsed_s
        now = _ticks()
        if now is None or self._ticks is None:
            return Disturbance(None, None, switches_per_s)
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        spent_s = [tick_s * (after - before) for before, after in zip(self._ticks, now, strict=True)]
        stolen_s = spent_s[_STEAL_COLUMN]
        busy_s = sum(spent_s) - sum(spent_s[column] for column in _IDLE_COLUMNS) - stolen_s
        return Disturbance(stolen_s / elapsed_s, (busy_s - own_s) / elapsed_s, switches_per_s)


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _ticks() -> list[int] | None:
    """Of all processors: user, nice, system, idle, iowait, irq, softirq, steal."""
    if not _STAT.exists():
        return None
    return [int(field) for field in _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
