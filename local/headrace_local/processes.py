"""Daemons: started detached, known ever after by pid and start time (a reused pid is never taken for one).

The child itself writes its record and joins the cluster's cgroup before it becomes the program: at no moment
is there a daemon that a killed starter would leave behind unrecorded.
"""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# $1: where to write the record, $2: the cgroup.procs file to join, $3...: the program.
_BECOME = """
read -r stat < /proc/$$/stat
record=$1; procs=$2; shift 2
echo $$ > "$procs" || exit 1
printf '%s\\n' "$stat" > "$record.new" && mv "$record.new" "$record" && exec "$@"
"""
_STATE, _START_TICKS = 0, 19  # fields of /proc/PID/stat, counted after the name in parentheses
RECORD_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this machine's present boot."""

    name: str
    pid: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        fields = _stat_fields(self.pid)
        return (
            fields is not None
            and int(fields[_START_TICKS]) == self.start_ticks
            and fields[_STATE] not in "ZX"
        )

    @property
    def age_s(self) -> float:
        started_s = self.start_ticks / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)

    @property
    def memory_bytes(self) -> int | None:
        """Resident memory; None when the process is gone."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return None
        return pages * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """End it now if it still runs."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Daemons:
    """The daemons of one cluster: where their records and logs are, and the `cgroup.procs` that they join."""

    records: Path
    logs: Path
    cgroup_procs: Path

    def start(self, name: str, command: Sequence[str]) -> Process:
        """Start a program in a session of its own and return once its record is written."""
        record = self.records / name
        record.unlink(missing_ok=True)
        with self.log(name).open("ab") as log:
            become = ["setsid", "--fork", "sh", "-c", _BECOME, "sh", str(record), str(self.cgroup_procs)]
            subprocess.run([*become, *command], check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline_s = time.monotonic() + RECORD_TIMEOUT_S
        while not record.exists():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{name} did not start: {self.last_words(name)}")
            time.sleep(0.002)
        return read_record(record)

    def all(self) -> list[Process]:
        """Every daemon that was started, in the order in which they were, alive or not."""
        files = [file for file in self.records.glob("*") if file.suffix != ".new"]
        return [read_record(file) for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)]

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def last_words(self, name: str, lines: int = 5) -> str:
        """The end of a daemon's log."""
        log = self.log(name)
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""


def read_record(file: Path) -> Process:
    """A record is the line of `/proc/PID/stat` that the process wrote of itself."""
    stat = file.read_text()
    return Process(
        name=file.name, pid=int(stat.split(" ", 1)[0]), start_ticks=int(_fields(stat)[_START_TICKS])
    )


def current_process(name: str) -> Process:
    """This very process."""
    fields = _stat_fields(os.getpid())
    assert fields is not None, "/proc shows this process"
    return Process(name, os.getpid(), int(fields[_START_TICKS]))


def _stat_fields(pid: int) -> list[str] | None:
    try:
        return _fields(Path(f"/proc/{pid}/stat").read_text())
    except OSError:
        return None


def _fields(stat: str) -> list[str]:
    # The name may hold spaces and parentheses; nothing after its last parenthesis does.
    return stat.rpartition(")")[2].split()
