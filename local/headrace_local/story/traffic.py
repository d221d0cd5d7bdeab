"""A load that runs beside the story, in a thread of its own."""

import asyncio
import threading
import time
from collections.abc import Sequence

from headrace_bench import session
from headrace_bench.load import Load
from headrace_bench.record import Record
from headrace_bench.session import Settings


class Traffic:
    """Starts at once. `records` grows while it runs; `stop` lets every request end and gives them all."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._load: Load | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._error: Exception | None = None
        self._thread.start()

    @property
    def records(self) -> Sequence[Record]:
        """The requests that have ended."""
        return list(self._load.records) if self._load else []

    @property
    def in_flight(self) -> int:
        """The requests that have not."""
        return self._load.in_flight if self._load else 0

    @property
    def now_s(self) -> float:
        """Now, on the clock of the records' times."""
        return time.perf_counter()

    def stop(self) -> Sequence[Record]:
        """Sends no more, waits for those in flight, and raises what the load itself failed of."""
        self._stopping.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self.records

    def _run(self) -> None:
        try:
            asyncio.run(session.run(self._settings, self._watch))
        except Exception as error:  # noqa: BLE001 - handed to the thread that asks
            self._error = error

    def _watch(self, load: Load) -> None:
        self._load = load
        if self._stopping.is_set():
            load.stop()
