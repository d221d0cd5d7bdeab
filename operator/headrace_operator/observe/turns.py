"""Whose turn it is to be scraped: one scrape of a pod at a time, a rest for one that let us wait. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, field

LONGEST_REST_S = 10.0


@dataclass(slots=True)
class Turns:
    """A pod that hangs costs a connection for as long as a scrape may take: it is asked less and less often,
    so that the others are asked in time. One that answers, with whatever, is asked each interval.
    """

    interval_s: float
    _under_way: set[str] = field(default_factory=set)
    _rest_s: dict[str, float] = field(default_factory=dict)
    _rests_until_s: dict[str, float] = field(default_factory=dict)

    def begin(self, pod_uid: str, now_s: float) -> bool:
        """Whether to scrape the pod now; if so its scrape is under way."""
        if pod_uid in self._under_way or now_s < self._rests_until_s.get(pod_uid, 0.0):
            return False
        self._under_way.add(pod_uid)
        return True

    def end(self, pod_uid: str, now_s: float, *, timed_out: bool) -> None:
        self._under_way.discard(pod_uid)
        if not timed_out:
            self._rest_s.pop(pod_uid, None)
            self._rests_until_s.pop(pod_uid, None)
            return
        rest_s = min(LONGEST_REST_S, 2 * self._rest_s.get(pod_uid, self.interval_s))
        self._rest_s[pod_uid] = rest_s
        self._rests_until_s[pod_uid] = now_s + rest_s

    def keep(self, pod_uids: Collection[str]) -> None:
        """Forget every pod but these."""
        for gone in self._rest_s.keys() - set(pod_uids):
            del self._rest_s[gone], self._rests_until_s[gone]
