"""How a model comes to stand in a directory of models: whole or not at all, and once."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_MARKER = ".headrace-revision"


def revision_in(directory: Path) -> str | None:
    """The revision that was placed there; None if there is no whole model."""
    marker = directory / _MARKER
    return marker.read_text() if marker.is_file() else None


def place(target: Path, revision: str, make: Callable[[Path], None]) -> bool:
    """Lets `make` write a model into an empty directory and moves that to `target`; False if this revision
    stands there already. What `make` raises leaves nothing behind.
    """
    if revision_in(target) == revision:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    workplace = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        make(workplace)
        (workplace / _MARKER).write_text(revision)
        _make_readable(workplace)
        # Somebody may have been faster, and be reading already what he placed.
        if revision_in(target) != revision:
            _put(workplace, target)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)
    return True


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
        if revision_in(target) is None:
            raise
    shutil.rmtree(retired, ignore_errors=True)
