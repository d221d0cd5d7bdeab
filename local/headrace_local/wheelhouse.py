"""A directory of wheels for the image's Python, whatever this machine's is: builds then need no network."""

import platform
from collections.abc import Sequence
from pathlib import Path

from headrace_local.cache import cache_directory
from headrace_local.image_cache import cached, run
from headrace_local.missing import Missing
from headrace_local.progress import Phases

PYTHON_VERSION = "3.11"
GLIBC_MINOR = 36
"""Of Debian bookworm: wheels may ask for glibc 2.5 up to this."""
_LEGACY_TAGS = ("manylinux2014", "manylinux2010", "manylinux1")


def fill(locks: Sequence[Path], phases: Phases) -> Path:
    """A directory with every wheel of the locks, hashes checked. Raises `Missing` where one cannot be had."""
    return cached(
        "wheels",
        (platform.machine(), PYTHON_VERSION, *(lock.read_text() for lock in locks)),
        "wheelhouse",
        lambda place: _download(locks, place),
        phases.phase("fetching the wheels of the operator's image"),
    )


def pip_command() -> list[str]:
    """The set-up's own pip, beside uv: the virtual environment has none. Raises `Missing`."""
    python = cache_directory() / "uv" / "bin" / "python"
    if not python.exists():
        raise Missing("pip is missing beside uv: run local/demo or local/test, which set both up.")
    return [str(python), "-m", "pip"]


def _download(locks: Sequence[Path], place: Path) -> None:
    requirements = [argument for lock in locks for argument in ("--requirement", str(lock))]
    target = ["--implementation", "cp", "--python-version", PYTHON_VERSION, *_platforms(platform.machine())]
    command = [*pip_command(), "download", "--quiet", "--no-input", "--no-deps", "--require-hashes"]
    run(
        [*command, "--only-binary=:all:", *target, *requirements, "--dest", str(place)],
        {},
        "pip could not fetch the wheels of the operator's image (does the package index answer?)",
    )


def _platforms(machine: str) -> list[str]:
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC_MINOR, 4, -1)]
    tags += [f"{tag}_{machine}" for tag in _LEGACY_TAGS]
    return [argument for tag in (*tags, f"linux_{machine}", "any") for argument in ("--platform", tag)]
