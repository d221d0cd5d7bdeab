"""Where Headrace keeps what is costly to make, the engine and the local cluster alike, and how two processes
share it.

Everything below the cache may be deleted while nothing runs; it is made again.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace_engine.runner.cache import cache_directory

__all__ = ["cache_directory", "exclusively"]


@contextmanager
def exclusively(lock_file: Path, *, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold `lock_file` alone on this machine; `waiting` is called once if another process holds it.

    The kernel drops the lock with its process, so a killed holder blocks nobody.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
