"""What is wrong with a file, said with its name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Raises `ValueError` with the path for a `ValueError` or `OSError` of what is done in it."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be used: {error}") from error
