"""Where every accepted request stands, and the only ways in which one moves.

enter ──> waiting ── admit ──> running ── finish ──> Finished, exactly once
             │           └──> loading ─┘ │
             └──────────────── preempt <─┘       finish also from waiting, loading and preempted
"""

from headrace_engine.core.admission import Admission
from headrace_engine.core.expiry import QueueDeadlines
from headrace_engine.core.kv_cache import KVCache
from headrace_engine.core.leases import Leases
from headrace_engine.core.line import Line
from headrace_engine.core.plan import Finished, Preempted, Scheduled
from headrace_engine.core.policy import Policy
from headrace_engine.core.request import FinishReason, Request, Status
from headrace_engine.core.running import Running
from headrace_engine.core.tenants import Tenants


class Lifecycle:
    """All accepted requests, in the structures that their status says."""

    def __init__(self, kv: KVCache, policy: Policy, tenants: Tenants) -> None:
        self.kv = kv
        self.tenants = tenants
        self.waiting = Line(policy)
        self.running = Running(tenants.running)
        self.queue = Admission()
        self.deadlines = QueueDeadlines()
        self.leases = Leases(kv.pool)
        self.requests: dict[str, Request] = {}
        """Every request that was accepted and has not ended."""
        self.computing = False
        """Whether a plan is under way: blocks named in it are not given away."""
        self._ended_while_computing: dict[str, Request] = {}
        self._notices: list[Scheduled | Preempted] = []
        """What planning did to requests; told with the plan's outcome."""
        self.num_accepted = 0
        self.num_finished = 0
        self.preemptions = 0
        self.prefix_query_tokens = 0
        self.prefix_hit_tokens = 0

    def is_served(self, request_id: str) -> bool:
        """Whether the id stands for a request, or for blocks of one that has just ended."""
        held = request_id in self._ended_while_computing or request_id in self.leases
        return held or request_id in self.requests

    def holds_tenant(self, tenant: str) -> bool:
        """Whether as many requests of a tenant run as may."""
        most = self.tenants.contract.of(tenant).max_num_seqs
        return most is not None and self.running.num_of(tenant) >= most

    def enter(self, request: Request, now_s: float) -> None:
        """Accept a request."""
        self.requests[request.request_id] = request
        self.num_accepted += 1
        self.tenants.arrives(request.tenant, now_s)
        leader = self.requests.get(request.leader)
        if leader is None or leader.output_token_ids:
            self.waiting.push(request, now_s)
        else:
            self.waiting.follow(request)
        self.queue.enter(request)
        self.deadlines.watch(request)

    def admit(self, request: Request, now_s: float, *, load_until_s: float | None = None) -> None:
        """Let a waiting request run, with the blocks it was given; with a deadline it loads KV first."""
        self.waiting.admit(request)
        self.tenants.shares.grant(request)
        if load_until_s is None:
            request.status = Status.RUNNING
            self.running.prefill(request, self.waiting.precedes)
        else:
            request.status, request.load_until_s = Status.LOADING, load_until_s
            self.running.load(request)
        if request.first_scheduled_s is None:
            request.first_scheduled_s = now_s
            request.cached_tokens = request.computed_tokens
            self.prefix_query_tokens += len(request.prompt_token_ids)
            self.prefix_hit_tokens += request.cached_tokens
            self.queue.leave(request, scheduled=True)
            self.deadlines.met(request)
            queue_time_s = now_s - request.arrival_s
            told = (request.request_id, queue_time_s, request.cached_tokens)
            self._notices.append(Scheduled(*told, by_share=request.by_share))

    def loaded(self, request: Request, num_tokens: int) -> None:
        """End a load that brought the KV of the first `num_tokens` tokens."""
        request.status = Status.RUNNING
        self.running.loaded(request)
        brought = min(num_tokens, request.total_tokens - 1) - request.computed_tokens
        if brought > 0:
            self.kv.advance(request, brought)

    def prefilled(self, request: Request) -> None:
        """Let a running request decode; those that share its prompt find it computed."""
        self.running.prefilled(request)
        self.waiting.lead(request.request_id)

    def preempt(self, request: Request, now_s: float) -> None:
        """Take everything from a running request; it waits to compute its tokens again."""
        self._notices.append(Preempted(request.request_id, request.computed_tokens))
        self.running.remove(request)
        self.kv.release(request)
        self.tenants.shares.withdraw(request)
        request.status = Status.PREEMPTED
        request.preemptions += 1
        self.preemptions += 1
        self.waiting.push(request, now_s)

    def finish(
        self,
        request: Request,
        reason: FinishReason,
        message: str | None = None,
        *,
        stop_token_id: int | None = None,
        lease_until_s: float | None = None,
    ) -> Finished:
        """The one way out, whatever the reason and wherever the request stands."""
        del self.requests[request.request_id]
        if request.status in (Status.RUNNING, Status.LOADING):
            self.tenants.charge(request, request.computed_tokens)
            self.tenants.shares.withdraw(request)
            self.tenants.shares.learn(request)
            self.running.remove(request)
        else:
            self.waiting.remove(request)
            self.queue.leave(request, scheduled=False)
            self.deadlines.forget(request)
        self.num_finished += 1
        self.waiting.unpark(request.tenant)
        self.waiting.lead(request.request_id)
        request.status = Status.FINISHED
        request.finish_reason = reason
        if self.computing:
            self._ended_while_computing[request.request_id] = request
        elif lease_until_s is not None:
            self.leases.hold(request.request_id, self.kv.surrender(request), lease_until_s)
        else:
            self.kv.release(request)
        return Finished(
            request.request_id,
            reason,
            stop_token_id,
            message,
            prompt_tokens=len(request.prompt_token_ids),
            output_tokens=len(request.output_token_ids),
            cached_tokens=request.cached_tokens,
        )

    def computed(self) -> list[Scheduled | Preempted]:
        """Let go of what waited for the plan that was under way; what planning did to those still there."""
        self.computing = False
        for request in self._ended_while_computing.values():
            self.kv.release(request)
        self._ended_while_computing.clear()
        notices, self._notices = self._notices, []
        return [notice for notice in notices if notice.request_id in self.requests]
