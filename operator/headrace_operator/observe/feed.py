"""Reads the records of our own engines' steps and requests, a page at a time.

A pod is asked every ten seconds at most, and only after its scrapes showed that it was at work: one at rest
is never asked. What it says explains, and decides nothing; an engine that does not answer, or has no such
records, is asked less and less often, and nothing else comes of it. Cursors are kept in memory alone.
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from headrace_operator.api.names import ADMIN_PORT
from headrace_operator.api.spec import Runtime
from headrace_operator.observe.admin import AdminClient, AdminError, AdminTarget
from headrace_operator.observe.feed_page import Page, PageError, page
from headrace_operator.observe.sample import PodSample
from headrace_operator.observe.scraper import Target
from headrace_operator.observe.windows import ServiceWindows
from headrace_operator.runtimes.metric_map import Counter

logger = logging.getLogger(__name__)

INTERVAL_S = 10.0
LONGEST_REST_S = 640.0
TIMEOUT_S = 2.0
LIMIT = 2000
"""Records of each kind in an answer: two hundred steps a second are kept up with."""
MAX_REPLY_BYTES = 2 * 1024 * 1024
BAD_REQUEST = 400

Work = tuple[float | None, ...]


@dataclass(slots=True)
class _Reading:
    """Where we are with one pod."""

    seen: Work
    """Its counts of work when it was asked last."""
    due_s: float
    cursor: str | None = None
    more: bool = False
    rest_s: float = INTERVAL_S
    under_way: bool = False


class Feed:
    """`clock` is monotonic, `wall_clock` Unix seconds; `count` is told the outcome of each read."""

    def __init__(
        self,
        *,
        admin: AdminClient,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        count: Callable[[str], None],
        port: int = ADMIN_PORT,
    ) -> None:
        self._admin = admin
        self._clock = clock
        self._wall_clock = wall_clock
        self._count = count
        self._port = port
        self._readings: dict[str, _Reading] = {}

    def keep(self, pod_uids: Collection[str]) -> None:
        """Forget every pod but these."""
        for gone in self._readings.keys() - set(pod_uids):
            del self._readings[gone]

    async def follow(self, target: Target, windows: ServiceWindows, *, retention_s: float) -> None:
        """Read what a pod recorded since the last time, if it is its turn."""
        sample = windows.latest(target.pod_uid)
        if sample is None or target.runtime is not Runtime.HEADRACE:
            return
        work = _work(sample)
        # What was done before the first look is not ours to tell: a pod at rest since is not asked at all.
        reading = self._readings.setdefault(target.pod_uid, _Reading(work, self._clock()))
        if reading.under_way or self._clock() < reading.due_s or not (reading.more or work != reading.seen):
            return
        reading.under_way, reading.seen = True, work
        try:
            self._count(await self._read(target, reading, windows, retention_s))
        finally:
            reading.under_way = False

    async def _read(
        self, target: Target, reading: _Reading, windows: ServiceWindows, retention_s: float
    ) -> str:
        """What the read is counted as."""
        # Before anything can go wrong, so that a bug is met once a turn and not at every scrape.
        reading.due_s = self._clock() + reading.rest_s
        is_first = reading.cursor is None
        pod = AdminTarget(target.pod_uid, target.ip, self._port)
        try:
            answer = await self._admin.telemetry(pod, since=reading.cursor, limit=LIMIT)
            found = page(answer.document, limit=LIMIT)
        except (AdminError, PageError) as error:
            logger.debug("no records: %s", error, extra={"pod": target.pod_uid})
            self._back_off(reading, error)
            return _word(error)
        reading.cursor, reading.more, reading.rest_s = found.cursor, found.more, INTERVAL_S
        reading.due_s = self._clock() + INTERVAL_S
        windows.records.add(found, at_s=self._wall_clock(), retention_s=retention_s)
        return _outcome(found, is_first=is_first)

    def _back_off(self, reading: _Reading, error: Exception) -> None:
        reading.rest_s = min(LONGEST_REST_S, 2 * reading.rest_s)
        reading.due_s = self._clock() + reading.rest_s
        if isinstance(error, AdminError) and error.status == BAD_REQUEST:
            reading.cursor = None


def _work(sample: PodSample) -> Work:
    return tuple(sample.counters.get(name) for name in (Counter.ARRIVALS, Counter.STEPS))


def _outcome(found: Page, *, is_first: bool) -> str:
    if found.implausible:
        return "Implausible"
    return "Gap" if found.has_gap and not is_first else "Ok"


def _word(error: AdminError | PageError) -> str:
    if isinstance(error, PageError) or error.status == 200:
        return "Malformed"
    return "NoAnswer" if error.status is None else "Refused"
