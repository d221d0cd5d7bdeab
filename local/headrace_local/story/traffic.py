"""Users who ask beside the story: each asks again as soon as it is answered. One thread, one event loop."""

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from headrace_bench import session
from headrace_bench.load import Bounds, Load
from headrace_bench.record import Record
from headrace_bench.session import Settings
from headrace_bench.workload import Lengths

LONGEST_S = 900.0
"""A story that hangs ends its load by itself."""


class Crowd:
    """Closed-loop users of one endpoint, who come in groups and go together."""

    def __init__(self, base_url: str, lengths: Lengths) -> None:
        self._base_url = base_url
        self._lengths = lengths
        self._loads: list[Load] = []
        self._ended: list[Future[Load]] = []
        self._leaving = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="crowd", daemon=True)
        self._thread.start()
        self.users = 0

    def join(self, users: int) -> None:
        """So many users more, from now on."""
        self.users += users
        bounds = Bounds(duration_s=LONGEST_S)
        settings = Settings(self._base_url, self._lengths, bounds, concurrency=users, seed=self.users)
        self._ended.append(asyncio.run_coroutine_threadsafe(session.run(settings, self._watch), self._loop))

    @property
    def now_s(self) -> float:
        """Now, on the clock of the records' times."""
        return time.perf_counter()

    @property
    def records(self) -> Sequence[Record]:
        """The requests that have ended."""
        return [record for load in self._loads for record in list(load.records)]

    def leave(self) -> Sequence[Record]:
        """Sends no more and reads every answer to its end. Raises what a load failed of."""
        self._leaving = True
        try:
            for ended in self._ended:
                ended.result()
            asyncio.run_coroutine_threadsafe(self._loop.shutdown_asyncgens(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        return self.records

    def _watch(self, load: Load) -> None:
        if load not in self._loads:
            self._loads.append(load)
        if self._leaving:
            load.stop()
