"""The scrape loop: every pod of every service, each interval, into that service's windows.

Only the leader scrapes, so that standbys cost the engines nothing; a new leader therefore begins with empty
windows and its decisions hold until they are full. Scraping writes nothing and wakes nobody, and no pod's
answer is waited for before another's is taken.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any

from headrace_operator.api.spec import Invalid
from headrace_operator.kube.kinds import Key
from headrace_operator.observe.exposition import Exposition
from headrace_operator.observe.feed import Feed
from headrace_operator.observe.sample import PodSample, sample
from headrace_operator.observe.scraper import ScrapeFailure, Scraper, Target
from headrace_operator.observe.specs import Specs
from headrace_operator.observe.targets import Targets
from headrace_operator.observe.turns import Turns
from headrace_operator.observe.windows import ServiceWindows
from headrace_operator.runtimes.metric_map import MetricMap
from headrace_operator.runtimes.registry import adapter

logger = logging.getLogger(__name__)

JITTER_RATIO = 0.1
DEFAULT_WINDOW_S = 300.0
"""Of a service whose spec cannot be read."""


class Collector:
    """`wall_clock` is Unix seconds, `clock` monotonic; `count` is told the outcome of each scrape,
    `tell` each sample after the pod's one before. `feed` is None where no call can be signed.
    """

    def __init__(
        self,
        *,
        targets: Targets,
        specs: Specs,
        scraper: Scraper,
        interval_s: float,
        wall_clock: Callable[[], float],
        clock: Callable[[], float],
        is_leader: Callable[[], bool],
        count: Callable[[str], None],
        tell: Callable[[Key, PodSample | None, PodSample], None],
        feed: Feed | None = None,
    ) -> None:
        self._targets = targets
        self._specs = specs
        self._scraper = scraper
        self._interval_s = interval_s
        self._wall_clock = wall_clock
        self._clock = clock
        self._is_leader = is_leader
        self._count = count
        self._tell = tell
        self._feed = feed
        self._turns = Turns(interval_s)
        self._windows: dict[str, ServiceWindows] = {}

    def windows_of(self, service_uid: str) -> ServiceWindows:
        return self._windows.setdefault(service_uid, ServiceWindows())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as scrapes:
            while True:
                if self._is_leader():
                    await self._begin_round(scrapes)
                else:
                    self._windows.clear()
                jitter = 1 + JITTER_RATIO * (2 * random.random() - 1)  # noqa: S311
                await asyncio.sleep(self._interval_s * jitter)

    async def _begin_round(self, scrapes: asyncio.TaskGroup) -> None:
        for gone in self._windows.keys() - self._targets.service_uids():
            del self._windows[gone]
        found = await self._targets.all()
        uids = [target.pod_uid for target, _ in found]
        self._turns.keep(uids)
        if self._feed is not None:
            self._feed.keep(uids)
        for target, service in found:
            if self._turns.begin(target.pod_uid, self._clock()):
                scrapes.create_task(self._scrape(target, service), name=f"scrape-{target.pod_uid}")

    async def _scrape(self, target: Target, service: Mapping[str, Any]) -> None:
        try:
            self._count(await self._outcome(target, service))
            if self._feed is not None:
                windows = self.windows_of(service["metadata"]["uid"])
                await self._feed.follow(target, windows, retention_s=self._window_s(service))
        # Nothing that one pod says may end the scrapes of all of them, and with these the process.
        except Exception:
            logger.exception("a scrape was lost to a bug", extra={"pod": target.pod_uid})
            self._count("Bug")

    async def _outcome(self, target: Target, service: Mapping[str, Any]) -> str:
        """Scrapes, keeps what was found, and says what that is counted as."""
        result: Exposition | ScrapeFailure | None = None
        metrics = adapter(target.runtime).metrics
        try:
            result = await self._scraper.scrape(target, wanted=metrics.wanted)
        finally:
            timed_out = isinstance(result, ScrapeFailure) and result.reason == "TimedOut"
            self._turns.end(target.pod_uid, self._clock(), timed_out=timed_out)
        if isinstance(result, ScrapeFailure):
            logger.debug("no sample: %s: %s", result.reason, result.message, extra={"pod": target.pod_uid})
            return result.reason
        return self._record(target, service, result, metrics)

    def _record(
        self, target: Target, service: Mapping[str, Any], found: Exposition, metrics: MetricMap
    ) -> str:
        """Into the service's windows, and to whoever waits for it."""
        window_s, windows = self._window_s(service), self.windows_of(service["metadata"]["uid"])
        before = windows.latest(target.pod_uid)
        windows.record(
            target.pod_uid,
            sample(found, metrics=metrics, at_s=self._wall_clock()),
            longest_break_s=window_s,
            retention_s=window_s,
        )
        newest = windows.latest(target.pod_uid)
        if newest is not None:
            self._tell(Key(service["metadata"]["namespace"], service["metadata"]["name"]), before, newest)
        return "Implausible" if newest is not None and newest.implausible else "Ok"

    def _window_s(self, service: Mapping[str, Any]) -> float:
        """The longest span that anybody asks the windows for."""
        spec = self._specs.of(service)
        if isinstance(spec, Invalid):
            return DEFAULT_WINDOW_S
        return max(spec.slo.window_s, spec.tuning.interval_s)
