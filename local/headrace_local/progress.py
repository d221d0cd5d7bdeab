"""Phases of slow work, shown with the time they take.

On a terminal the running phase is a live line with its elapsed time; elsewhere a long phase says every half
minute that it still runs, so that a build log never looks dead.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

HEARTBEAT_S = 30.0


def duration(seconds: float) -> str:
    """Seconds as people say them: `2.9 s`, `1 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


class Phases:
    """Tells the phases of slow work on a console; `quiet` tells nothing but notes."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self.console = console or Console(stderr=True)
        self._quiet = quiet

    def note(self, text: str) -> None:
        """One line, now."""
        self.console.print(f"  {text}", highlight=False, soft_wrap=True)

    @contextmanager
    def phase(self, title: str, *, expected: str = "") -> Iterator[None]:
        """Show `title` while the block runs, and then what it took; `expected` says how long that may be."""
        if self._quiet:
            yield
            return
        started_s = time.monotonic()
        running = f"{title} [dim]({expected})[/]" if expected else title
        with self._live(running) if self.console.is_terminal else self._heartbeat(title, expected, started_s):
            try:
                yield
            except BaseException:
                self._tell("red", "✗", title, started_s)
                raise
        self._tell("green", "✓", title, started_s)

    def _tell(self, color: str, sign: str, title: str, started_s: float) -> None:
        took = duration(time.monotonic() - started_s)
        self.console.print(f"[{color}]{sign}[/] {title}  [dim]{took}[/]", highlight=False)

    @contextmanager
    def _live(self, running: str) -> Iterator[None]:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            progress.add_task(running, total=None)
            yield

    @contextmanager
    def _heartbeat(self, title: str, expected: str, started_s: float) -> Iterator[None]:
        if expected:
            self.console.print(f"… {title} [dim]({expected})[/]", highlight=False)
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(HEARTBEAT_S):
                elapsed = duration(time.monotonic() - started_s)
                self.console.print(f"… {title}  [dim]{elapsed} so far[/]", highlight=False)

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
