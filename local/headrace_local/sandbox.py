"""The network and mount namespace in which a cluster lives, held by one sleeping process.

Inside, `/run` is a fresh tmpfs and the directories that kubelet and CNI have fixed names for are the
cluster's own, so that clusters never meet each other nor a container runtime of the machine, and every mount
they make dies with them. Outside nothing is mounted at all.
"""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from headrace_local.missing import Missing
from headrace_local.processes import Daemons, Process

HOLDER = "sandbox"
START_TIMEOUT_S = 30.0
# Directories that the daemons use whatever they are told: bound to the cluster's own inside.
FIXED_DIRECTORIES = ("/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers")

_MOUNT = """
mount --make-rslave / && mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/lock /run/netns
own=$1; shift
for directory; do mount --bind "$own$directory" "$directory"; done
"""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Runs programs inside a cluster's namespaces."""

    holder: Process

    def command(self, *command: str) -> list[str]:
        """The command that runs `command` inside (it becomes the program: the pid stays)."""
        return ["nsenter", f"--target={self.holder.pid}", "--net", "--mount", "--", *command]

    def run(self, *command: str, timeout_s: float = 120.0) -> str:
        """Run a program inside to its end; its output. Raises `CalledProcessError`."""
        inside = self.command(*command)
        done = subprocess.run(
            inside, check=True, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL
        )
        return done.stdout


def start_sandbox(daemons: Daemons, own: Path, record: Path) -> Sandbox:
    """Make the namespaces.

    `own` will hold what the daemons write below `FIXED_DIRECTORIES`; `record`, which all clusters of a cache
    share, names those that the machine did not have and that are made to be mounted on.
    """
    _make_mount_points(own, record)
    holder = daemons.start(
        HOLDER, ["unshare", "--net", "--mount", "--propagation=private", "sleep", "infinity"]
    )
    _await_program(holder, "sleep", daemons)
    sandbox = Sandbox(holder)
    try:
        sandbox.run("sh", "-e", "-c", _MOUNT, "sh", str(own), *FIXED_DIRECTORIES)
    except subprocess.CalledProcessError as error:
        raise Missing(
            f"This machine lets nobody mount in a namespace of their own: {error.stderr.strip()}"
        ) from error
    return sandbox


def remove_mount_points(record: Path) -> None:
    """Remove the directories that any `start_sandbox` had to make, but those that somebody uses by now.

    Removing a directory takes away what is mounted on it in every namespace, so one that another sandbox uses
    stays in the record, for the last of them to remove.
    """
    made = _read_record(record)
    left = made & _mount_points_of_all_namespaces()
    for directory in sorted(made - left):
        try:
            Path(directory).rmdir()
        except OSError:
            continue  # gone, or somebody put files there: not ours any more
    if left:
        record.write_text(json.dumps(sorted(left)))
    else:
        record.unlink(missing_ok=True)


def _make_mount_points(own: Path, record: Path) -> None:
    for directory in FIXED_DIRECTORIES:
        (own / directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
    made = {directory for directory in FIXED_DIRECTORIES if not Path(directory).exists()}
    record.write_text(json.dumps(sorted(made | _read_record(record))))
    for directory in FIXED_DIRECTORIES:
        Path(directory).mkdir(parents=True, exist_ok=True)


def _read_record(record: Path) -> set[str]:
    return set(json.loads(record.read_text())) if record.exists() else set()


def _mount_points_of_all_namespaces() -> set[str]:
    mounted: set[str] = set()
    seen: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            namespace = str((process / "ns" / "mnt").readlink())
            if namespace not in seen:
                mounted.update(line.split()[4] for line in (process / "mountinfo").read_text().splitlines())
                seen.add(namespace)
        except OSError:
            continue  # it ended meanwhile
    return mounted


def _await_program(process: Process, program: str, daemons: Daemons) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    comm = Path(f"/proc/{process.pid}/comm")
    while not (process.alive and comm.read_text().strip() == program):
        if not process.alive or time.monotonic() > deadline_s:
            raise Missing(f"This machine lets nobody make namespaces: {daemons.last_words(HOLDER)}")
        time.sleep(0.002)
