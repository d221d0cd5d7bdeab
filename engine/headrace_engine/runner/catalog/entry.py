"""One model that can be added, and how it comes to stand in the models directory: whole or not at all."""

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Progress = Callable[[str], None]
"""Told what is done next, in a few words."""


class AddError(Exception):
    """A model that could not be added. The message says what to do about it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the catalog.

    `make(directory, progress)` writes the files, `check(directory)` loads what was written and raises
    `AddError` if it does not answer as it must. `revision` changes when what `make` writes changes.
    """

    name: str
    summary: str
    revision: str
    make: Callable[[Path, Progress], None]
    check: Callable[[Path], None]

    @property
    def digest(self) -> str:
        """A short name for what `make` writes."""
        return hashlib.sha256(f"{self.name}/{self.revision}".encode()).hexdigest()[:12]

    def is_added(self, models: Path) -> bool:
        marker = models / self.name / _MARKER
        return marker.is_file() and marker.read_text() == self.revision

    def add(self, models: Path, progress: Progress) -> bool:
        """Makes the model in `models` unless it stands there already; False if there was nothing to do.

        Raises:
            AddError: it cannot be had, or what was had is not what it should be. Nothing is left behind.
        """
        if self.is_added(models):
            return False
        models.mkdir(parents=True, exist_ok=True)
        workplace = Path(tempfile.mkdtemp(prefix=f".{self.name}-", dir=models))
        try:
            self.make(workplace, progress)
            progress("Trying it out")
            self.check(workplace)
            (workplace / _MARKER).write_text(self.revision)
            _make_readable(workplace)
            _put(workplace, models / self.name)
        finally:
            shutil.rmtree(workplace, ignore_errors=True)
        return True


_MARKER = ".headrace-revision"


def _make_readable(directory: Path) -> None:
    """Engines run as another user than the one who adds models."""
    directory.chmod(0o755)
    for path in directory.iterdir():
        path.chmod(0o644)


def _put(workplace: Path, target: Path) -> None:
    """Moves a finished directory into place. Who adds the same model at the same time wins or loses, both
    whole.
    """
    retired = workplace.with_name(workplace.name + ".retired")
    with contextlib.suppress(FileNotFoundError):
        target.replace(retired)
    try:
        workplace.replace(target)
    except OSError:
        if not (target / _MARKER).is_file():
            raise
    shutil.rmtree(retired, ignore_errors=True)
