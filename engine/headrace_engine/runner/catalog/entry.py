"""One model that can be added."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace_engine.runner.placing import place

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

    def add(self, models: Path, progress: Progress) -> bool:
        """Makes the model in `models` unless it stands there already; False if there was nothing to do.

        Raises:
            AddError: it cannot be had, or what was had is not what it should be. Nothing is left behind.
        """

        def make_and_check(directory: Path) -> None:
            self.make(directory, progress)
            progress("Trying it out")
            self.check(directory)

        return place(models / self.name, self.revision, make_and_check)
