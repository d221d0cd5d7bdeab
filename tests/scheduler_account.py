"""A plain account of what a scheduler was given and what it said, and what must be true of both."""

from collections import Counter
from collections.abc import Sequence

from slot_runner import SlotRunner, alone

from headrace_engine.core.plan import (
    Finished,
    Hold,
    Plan,
    Preempted,
    PromptLogprobs,
    Row,
    Scheduled,
    Tokens,
)
from headrace_engine.core.preemption import MAX_PREEMPTIONS
from headrace_engine.core.request import FinishReason, Request, Status
from headrace_engine.core.scheduler import Scheduler

Leased = tuple[list[int], list[list[int | None]]]
"""Blocks of an ended request, and their content."""


class Account:
    """Every request, what was told of it, and how far it is computed by the plans' rows alone."""

    def __init__(self, scheduler: Scheduler, runner: SlotRunner) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._block_size = scheduler.capacity.block_size
        self.accepted: dict[str, Request] = {}
        self.live: dict[str, Request] = {}
        self.finished: dict[str, Finished] = {}
        self.leases: dict[str, Leased] = {}
        self.computed_until: dict[str, int] = {}
        """Next position to compute of each request that holds blocks."""
        self._told: dict[str, list[int]] = {}
        self._scored: dict[str, list[float]] = {}
        self._preemptions = 0

    def accept(self, request: Request) -> None:
        self.accepted[request.request_id] = self.live[request.request_id] = request
        self._told[request.request_id] = []
        self._scored[request.request_id] = []

    def note(self, events: Sequence[object], plan: Plan) -> None:
        """The plan was committed, or failed, with these events."""
        for row in plan.rows:
            request = self.accepted[row.request_id]
            until = row.start + len(row.token_ids) if not row.sampled_rows else request.total_tokens - 1
            self.computed_until[row.request_id] = until
        for event in events:
            match event:
                case Finished():
                    self.finish(event)
                case PromptLogprobs(request_id, logprobs):
                    self._scored[request_id] += [-each.logprob for each in logprobs]
                case Tokens(request_id, token_ids):
                    assert request_id in self.live, "nothing is told after the end"
                    self._told[request_id].extend(token_ids)
                    self._check_scored(self.accepted[request_id])
                case Scheduled(request_id, queue_time_s) | Preempted(request_id, queue_time_s):
                    assert request_id in self.live
                    assert queue_time_s >= 0

    def _check_scored(self, request: Request) -> None:
        """Each prompt token's successor was scored once, in order, before anything is said."""
        wanted = request.sampling.prompt_logprobs is not None
        positions = range(len(request.prompt_token_ids) - 1) if wanted else ()
        assert self._scored[request.request_id] == list(positions)

    def finish(self, event: Finished) -> None:
        assert event.request_id not in self.finished, "a request ends once"
        request = self.live.pop(event.request_id)
        self.finished[event.request_id] = event
        self.computed_until.pop(event.request_id, None)
        self._preemptions += request.preemptions
        assert request.preemptions <= MAX_PREEMPTIONS
        if event.request_id in self._scheduler._life.leases:
            blocks = list(self._scheduler._life.leases._blocks[event.request_id])
            self.leases[event.request_id] = (blocks, self._runner.content(blocks))
        stop = [] if event.stop_token_id is None else [event.stop_token_id]
        told, expected = self._told.pop(event.request_id) + stop, alone(request)
        assert told == request.output_token_ids == expected[: len(told)]
        assert event.output_tokens == len(told)
        if event.reason is FinishReason.LENGTH or event.stop_token_id is not None:
            assert told == expected, "what else is in the batch changes nothing"
            self._check_scored(request)

    def running(self) -> Counter[str]:
        """How many requests of each tenant run."""
        states = (Status.RUNNING, Status.LOADING)
        return Counter(request.tenant for request in self.live.values() if request.status in states)

    def num_step_keys(self) -> int:
        """How many step keys run."""
        return len({request.step_key for request in self._scheduler._life.running} - {""})

    def check_plan(self, plan: Plan, running: Counter[str], keys: int) -> None:
        """A plan made while that many ran, of each tenant and of step keys, keeps within the limits."""
        limits, contract = self._scheduler.limits, self._scheduler.tenants.contract
        rows, now_running = plan.rows, self.running()
        assert plan.num_tokens == sum(len(row.token_ids) for row in rows) <= limits.max_num_batched_tokens
        assert plan.context_tokens == sum(row.start + len(row.token_ids) for row in rows)
        assert len({row.request_id for row in rows}) == len(rows) <= self._scheduler.capacity.max_num_seqs
        assert now_running.total() <= max(limits.max_num_seqs, running.total())
        for tenant, count in now_running.items():
            most = contract.of(tenant).max_num_seqs
            assert most is None or count <= max(most, running[tenant])
        cap = limits.long_prefill_token_threshold or limits.max_num_batched_tokens
        assert all(len(row.token_ids) - max(0, row.sampled_rows - 1) <= cap for row in rows)
        partial = [row for row in rows if not row.sampled_rows and not self._ends(row)]
        assert len(partial) <= (limits.max_num_partial_prefills or len(partial))
        assert self.num_step_keys() <= max(limits.max_step_keys or 99, keys)
        if self.live and not self.leases and not self._scheduler._life.running.loads:
            assert rows, "a step with work computes at least one token"
        if plan.hold is Hold.PREEMPTION:
            assert now_running.total() < running.total(), (
                "nothing is admitted in a step that ran out of blocks"
            )

    def check_row(self, row: Row, computed_before: int) -> None:
        start = self.computed_until.get(row.request_id)
        if start is None:
            assert row.start % self._block_size == 0, "only whole blocks are found in the cache"
            assert computed_before == 0
        else:
            assert row.start == start, "no position is skipped or computed twice"
        last = (row.start + len(row.token_ids) - 1) // self._block_size
        for block in row.block_table[row.start // self._block_size : last + 1]:
            assert self._scheduler._kv.pool.references(block) == 1, "nobody writes into a shared block"

    def check_blocks(self) -> None:
        """Every block is where the requests and the leases say, and none is lost."""
        references = Counter(block for request in self.live.values() for block in request.block_table)
        num_held = len(references)
        for blocks, content in self.leases.values():
            assert self._runner.content(blocks) == content, "leased blocks keep what is in them"
            references.update(blocks)
        snapshot, pool = self._scheduler.snapshot(0.0), self._scheduler._kv.pool
        assert all(pool.references(block) == references[block] for block in range(pool.num_blocks))
        in_use = snapshot.leased_blocks + snapshot.referenced_blocks
        assert snapshot.free_blocks + snapshot.cached_blocks + in_use == pool.num_blocks
        assert snapshot.referenced_blocks == num_held
        assert in_use == len(+references)
        assert min(snapshot.free_blocks, snapshot.cached_blocks) >= 0

    def check_counts(self, now_s: float) -> None:
        """What the snapshot counts is what was accepted and has not ended."""
        snapshot, live = self._scheduler.snapshot(now_s), self.live.values()
        newcomers = [request for request in live if request.first_scheduled_s is None]
        assert snapshot.in_flight == len(live)
        assert snapshot.accepted_total == len(self.accepted)
        assert snapshot.finished_total == len(self.finished)
        assert snapshot.num_newcomers == len(newcomers)
        prompts = [request.prompt_token_ids for request in newcomers if not request.leader]
        assert snapshot.waiting_tokens == sum(map(len, prompts))
        oldest_s = max((now_s - request.arrival_s for request in newcomers), default=None)
        assert snapshot.oldest_waiting_age_s == oldest_s
        preemptions = sum(request.preemptions for request in live)
        assert snapshot.preemptions_total == self._preemptions + preemptions
        assert self._scheduler.has_work() == bool(live)
        for request in live:
            runs = request.status in {Status.RUNNING, Status.LOADING}
            assert runs or (not request.by_share and request.promised_tokens == 0)
            assert request.promised_tokens >= 0

    def _ends(self, row: Row) -> bool:
        return row.start + len(row.token_ids) >= self.accepted[row.request_id].total_tokens
