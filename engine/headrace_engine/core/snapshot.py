"""What the scheduler holds at one moment, for gauges and for the simulator."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counts between two steps; totals are since the scheduler was made."""

    num_running: int
    num_waiting: int
    """Newcomers and preempted requests."""
    num_newcomers: int
    """Accepted and not yet scheduled for the first time: what the queue bounds count."""
    waiting_tokens: int
    """Prompt tokens of the newcomers."""
    oldest_waiting_age_s: float | None
    """Since the arrival of the oldest newcomer; None if there is none."""
    num_blocks: int
    free_blocks: int
    cached_blocks: int
    leased_blocks: int
    """Pinned for others to fetch, and held by no request."""
    referenced_blocks: int
    """Held by requests; free, cached, leased and referenced add up to all."""
    accepted_total: int
    finished_total: int
    """Terminal events; accepted = finished + in flight, always."""
    preemptions_total: int
    prefix_query_tokens_total: int
    """Prompt tokens of requests at their first scheduling, looked up in the prefix cache."""
    prefix_hit_tokens_total: int
    """Those of them that were found."""

    @property
    def in_flight(self) -> int:
        """Requests accepted and not ended."""
        return self.num_running + self.num_waiting

    @property
    def kv_usage_ratio(self) -> float:
        """Share of blocks that requests or leases hold."""
        return (self.referenced_blocks + self.leased_blocks) / self.num_blocks
