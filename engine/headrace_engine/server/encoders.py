"""The threads that encode and decode. A task has so much processor time; one that takes more is given up.

A tokenizer comes with the model, and its regular expressions may take for ever over a text, or fail on it in
a way that is no exception. A thread cannot be stopped: one that is given up goes on at the lowest priority,
and another takes its place. With `MOST_LOST` of them nothing more is taken, and only a restart helps.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from headrace_engine.server.errors import unavailable

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_S = 1.0
MOST_LOST = 4
LOWEST_PRIORITY = 19


class EncodingError(ValueError):
    """A text that the model's tokenizer fails on, or does not come to an end with."""


class NeverEndingError(EncodingError):
    """The latter."""


@dataclass(slots=True)
class _Task:
    work: Callable[[], Any]
    most_cpu_s: float
    outcome: "asyncio.Future[Any]"
    worker: "_Worker | None" = None
    began_cpu_s: float = 0.0
    """On its worker's clock."""


class Encoders:
    """Made and used on one event loop; threads are started as they are needed."""

    def __init__(self, num_threads: int) -> None:
        self._num_threads = num_threads
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._workers: list[_Worker] = []
        self._lost: list[_Worker] = []

    async def run(self, work: Callable[[], T], most_cpu_s: float) -> T:
        """What `work` returns, on one of the threads.

        Raises:
            EncodingError: it took more than `most_cpu_s` of processor time, or failed by no exception.
            ApiError: 503; too many came to no end.
        """
        if self.is_stuck:
            raise unavailable("tokenizer_stuck", "The model's tokenizer is stuck. The server has to restart.")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        task = _Task(work, most_cpu_s, outcome)
        if len(self._workers) < self._num_threads:
            self._workers.append(_Worker(self._tasks, loop))
        self._tasks.put(task)
        look = loop.call_later(LOOK_S, self._look, task)
        try:
            return await outcome
        finally:
            look.cancel()

    @property
    def is_stuck(self) -> bool:
        return len(self._still_lost()) >= MOST_LOST

    def close(self) -> None:
        """Idle threads end; those with a task do after it."""
        for _ in self._workers:
            self._tasks.put(None)
        self._workers.clear()

    def _look(self, task: _Task) -> None:
        if task.outcome.done():
            return
        worker = task.worker
        if worker is not None and worker.cpu_s() - task.began_cpu_s > task.most_cpu_s:
            self._give_up(task, worker)
        else:
            asyncio.get_running_loop().call_later(LOOK_S, self._look, task)

    def _give_up(self, task: _Task, worker: "_Worker") -> None:
        log.error("the model's tokenizer does not come to an end with a text; its thread is given up")
        task.outcome.set_exception(NeverEndingError("takes too much time for a text"))
        worker.give_up()
        self._lost = [*self._still_lost(), worker]
        if worker in self._workers:
            self._workers.remove(worker)
            self._workers.append(_Worker(self._tasks, asyncio.get_running_loop()))

    def _still_lost(self) -> list["_Worker"]:
        return [worker for worker in self._lost if worker.thread.is_alive()]


class _Worker:
    """A thread that takes one task after another."""

    def __init__(self, tasks: "SimpleQueue[_Task | None]", loop: asyncio.AbstractEventLoop) -> None:
        self._tasks = tasks
        self._loop = loop
        self._is_given_up = False
        self.thread = threading.Thread(target=self._run, name="tokenize", daemon=True)
        self.thread.start()

    def cpu_s(self) -> float:
        """Processor time of this thread so far; of a thread that lives."""
        assert self.thread.ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(self.thread.ident))

    def give_up(self) -> None:
        self._is_given_up = True
        if (tid := self.thread.native_id) is not None:
            os.setpriority(os.PRIO_PROCESS, tid, LOWEST_PRIORITY)

    def _run(self) -> None:
        while not self._is_given_up and (task := self._tasks.get()) is not None:
            task.began_cpu_s, task.worker = time.thread_time(), self
            settle: Callable[[Any], None]
            try:
                settle, outcome = task.outcome.set_result, task.work()
            except BaseException as error:  # noqa: BLE001 - whoever awaits it has it
                settle, outcome = task.outcome.set_exception, _told(error)
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(_unless_done, task.outcome, settle, outcome)


def _told(error: BaseException) -> Exception:
    """The library raises an `Exception` and none narrower, and where it panics not even that."""
    if isinstance(error, Exception) and type(error) is not Exception:
        return error
    return EncodingError("fails on a text")


def _unless_done(future: "asyncio.Future[Any]", settle: Callable[[Any], None], outcome: Any) -> None:
    if not future.done():
        settle(outcome)
