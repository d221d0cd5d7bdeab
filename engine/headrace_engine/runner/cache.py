"""Where Headrace keeps what it can make or fetch again."""

import os
import tempfile
from pathlib import Path


def cache_directory() -> Path:
    """`$HEADRACE_CACHE`, else `headrace` in the user's cache directory (or where temporary files go: a
    container's user may have no home). It need not exist yet.
    """
    if configured := os.environ.get("HEADRACE_CACHE"):
        return Path(configured).absolute()
    if configured := os.environ.get("XDG_CACHE_HOME"):
        return Path(configured).absolute() / "headrace"
    try:
        return Path.home() / ".cache" / "headrace"
    except RuntimeError:
        return Path(tempfile.gettempdir()) / "headrace"


def models_directory() -> Path:
    """`$HEADRACE_MODELS`, else `models` in the cache."""
    return Path(os.environ.get("HEADRACE_MODELS") or cache_directory() / "models")
