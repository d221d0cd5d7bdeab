"""Makes a shared library of a C file with the machine's own compiler, once per source, flags and processor.

Finished libraries are kept in `$HEADRACE_KERNEL_CACHE` (else `kernels` in the cache; else, where that cannot
be written, a private directory for temporary files) under a name that is the digest of all that went in. One
that is there already is used even if the directory is read-only and no compiler is installed. A library is
code: a directory that others may write is not trusted.
"""

import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace_engine.runner.cache import cache_directory

_TIMEOUT_S = 60
_FLAGS = (
    "-std=gnu11",
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    # Parts of -ffast-math, one by one: the whole would also switch denormals off in every thread.
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-ffinite-math-only",
)


class CompileError(Exception):
    """There is no library and none can be made; the message says why."""


def shared_library(source: Path, defines: Sequence[str] = (), flags: Sequence[str] = ("-fopenmp",)) -> Path:
    """The library of a C file, compiled unless it is there already.

    Raises:
        CompileError: no compiler, or it fails, or no directory to keep the library in.
    """
    options = [*_FLAGS, *_wide_vectors(), *flags, *(f"-D{define}" for define in defines)]
    name = f"{source.stem}-{_digest(source, options)}.so"
    directories = [directory for directory in _directories() if _is_trusted(directory)]
    for directory in directories:
        if (library := directory / name).is_file():
            return library
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise CompileError("no C compiler is installed")
    for directory in directories:
        if os.access(directory, os.W_OK):
            return _compile([compiler, *options, str(source)], directory / name)
    raise CompileError("no directory can be written: set HEADRACE_KERNEL_CACHE")


def _compile(command: list[str], library: Path) -> Path:
    with tempfile.NamedTemporaryFile(dir=library.parent, suffix=".so", delete=False) as unfinished:
        path = Path(unfinished.name)
    try:
        done = subprocess.run(  # noqa: S603 - the machine's compiler on our own file
            [*command, "-o", str(path), "-lm"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise CompileError(f"{command[0]} failed: {done.stderr.strip()[-400:]}")
        path.chmod(0o755)
        path.replace(library)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"{command[0]} could not be run: {error}") from error
    finally:
        path.unlink(missing_ok=True)
    return library


def _directories() -> Iterator[Path]:
    configured = os.environ.get("HEADRACE_KERNEL_CACHE")
    yield Path(configured) if configured else cache_directory() / "kernels"
    yield Path(tempfile.gettempdir()) / f"headrace-kernels-{os.geteuid()}"


def _is_trusted(directory: Path) -> bool:
    """It exists or can be made, belongs to us or to root, and nobody else may write it."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        found = directory.lstat()
    except OSError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISDIR(found.st_mode) and found.st_uid in {0, os.geteuid()} and not found.st_mode & others


def _digest(source: Path, options: Sequence[str]) -> str:
    parts = [source.read_bytes(), *(option.encode() for option in options), _processor().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> str:
    """What `-march=native` depends on: the architecture and the features that the kernel reports."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {features}"


def _wide_vectors() -> Sequence[str]:
    return ("-mprefer-vector-width=512",) if platform.machine() == "x86_64" else ()
