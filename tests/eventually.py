"""Waiting for a condition, whatever the machine has to do besides."""

import time
from collections.abc import Callable
from typing import Any


def eventually(check: Callable[[], Any], *, within_s: float = 60.0) -> Any:
    """What `check` returns once that is true and no AssertionError is raised."""
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            found = check()
            if found or time.monotonic() > deadline_s:
                assert found, "it did not come true in time"
                return found
        except AssertionError:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(0.05)
