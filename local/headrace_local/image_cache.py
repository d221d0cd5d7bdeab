"""What image builds leave in the cache: one directory for each set of inputs, whole or not at all.

Builders of one kind wait for each other. A build runs in namespaces of its own and dies with the process that
asked for it: killed, it leaves neither mounts nor writers, only a directory that the next one removes.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from headrace_local.cache import cache_directory, exclusively
from headrace_local.missing import Missing

KEPT = 3
"""How many results of one kind stay: another checkout's, and the one before the last edit."""
_UNFINISHED = ".building-"


def cached(
    kind: str,
    inputs: Sequence[str],
    name: str,
    make: Callable[[Path], None],
    phase: AbstractContextManager[None],
) -> Path:
    """The file or directory `name` that `make` makes of `inputs`; made now, within `phase`, if it is missing.

    `make` gets the path to make, in a directory that it may fill: only what is at the path is kept.
    """
    root = cache_directory() / "images"
    key = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:16]
    place = root / f"{kind}-{key}"
    if not place.exists():
        with exclusively(root / f".{kind}.lock"):
            if not place.exists():
                with phase:
                    _make(root, kind, place, name, make)
                _prune(root, kind)
    os.utime(place)
    return place / name


def _make(root: Path, kind: str, place: Path, name: str, make: Callable[[Path], None]) -> None:
    for unfinished in root.glob(f"{_UNFINISHED}{kind}-*"):
        shutil.rmtree(unfinished)
    work = root / f"{_UNFINISHED}{place.name}"
    work.mkdir()
    make(work / name)
    for left in work.iterdir():
        if left.name != name:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    work.rename(place)


def _prune(root: Path, kind: str) -> None:
    newest_first = sorted(root.glob(f"{kind}-*"), key=lambda place: place.stat().st_mtime, reverse=True)
    for old in newest_first[KEPT:]:
        shutil.rmtree(old)


def run(command: Sequence[str], environment: Mapping[str, str], complaint: str) -> str:
    """Run a build's command apart from the machine; what it printed. Raises `Missing` with its last lines."""
    # The first kills the second when this process dies; the second's PID namespace takes all of its processes
    # along, its mount namespace all of their mounts.
    apart = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]
    done = subprocess.run(
        [*apart, *command],
        check=False,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        last = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise Missing(f"{complaint}:\n{last}")
    return done.stdout
