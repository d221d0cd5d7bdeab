"""Fills a step: who computes which tokens in it, and who is admitted to it.

way and room   running requests give way to a better head, or to decodes that need a block
decodes        every running request with one pending token computes it
prefills       running requests with more compute a chunk each; a head whose prompt precedes one is
admitted before it
admissions     the policy's order, while budget, slots and blocks last
drafts         guesses for the decodes, with what nobody else wanted
"""

from collections.abc import Sequence

from headrace_engine.core.drafter import Drafter
from headrace_engine.core.lifecycle import Lifecycle
from headrace_engine.core.limits import Limits
from headrace_engine.core.plan import Hold, Load, Plan
from headrace_engine.core.preemption import is_pinned, make_room, make_way
from headrace_engine.core.request import Request
from headrace_engine.core.step import Step

MAX_LOADING_RATIO = 0.5
"""Share of the blocks that requests may hold while they load; beyond it a prompt is computed instead."""


class Planner:
    """Plans steps of one engine's requests."""

    def __init__(self, life: Lifecycle, drafter: Drafter | None, *, static_batches: bool) -> None:
        self._life = life
        self._drafter = drafter
        self._static_batches = static_batches
        """Nobody joins before all that run have ended: a baseline to measure against."""
        self._short_of_blocks = False
        """Whether the last step's head lacked blocks."""

    def fill(self, step: Step, limits: Limits, now_s: float) -> Plan:
        """Fill an empty step, within `limits`."""
        outranked = make_way(self._life, limits, now_s, short_of_blocks=self._short_of_blocks)
        preempted = make_room(self._life, now_s)
        decodes = step.share_of(list(self._life.running.decodes.values()))
        step.decode(decodes)
        self._prefill_running(step, limits, now_s, admitting=not (preempted or self._static_batches))
        holds = [Hold.PREEMPTION] if preempted else self._admit(step, limits, now_s)
        self._short_of_blocks = holds[-1:] == [Hold.BLOCKS]
        if self._drafter is not None:
            self._draft(self._drafter, step, decodes)
        return step.plan(outranked + preempted, holds)

    def _prefill_running(self, step: Step, limits: Limits, now_s: float, *, admitting: bool) -> None:
        waiting = self._life.waiting
        for request in list(self._life.running.prefills.values()):
            while admitting and (head := waiting.next_before(request, now_s)) is not None:
                admitting = self._try(head, step, limits, now_s) is None
            if step.hold() is not None:
                return
            self._prefill(request, step, now_s)

    def _admit(self, step: Step, limits: Limits, now_s: float) -> list[Hold]:
        """Admit in the policy's order while it fits; returns what held back those that were not."""
        waiting, holds = self._life.waiting, list[Hold]()
        if self._static_batches and len(self._life.running):
            return [Hold.SLOTS] if len(waiting) else holds
        for request in waiting.candidates(now_s):
            hold = self._try(request, step, limits, now_s)
            if hold is None:
                continue
            holds.append(hold)
            if hold is Hold.TENANT:
                waiting.park(request)
            elif hold is not Hold.KEYS or not waiting.set_aside(request):
                break
        return holds

    def _try(self, request: Request, step: Step, limits: Limits, now_s: float) -> Hold | None:
        """Admit a request, or say what holds it back."""
        life, running = self._life, self._life.running
        if life.holds_tenant(request.tenant):
            return Hold.TENANT
        if hold := step.hold(yields=life.waiting.yields(request, now_s)):
            return hold
        if len(running) >= limits.max_num_seqs:
            return Hold.SLOTS
        if not running.admits_key(request.step_key, limits.max_step_keys):
            return Hold.KEYS
        if not life.kv.admit(request, whole_length=is_pinned(request)):
            return Hold.BLOCKS
        if self._loads(request):
            life.admit(request, now_s, load_until_s=now_s + request.load_timeout_s)
            start, end = request.computed_tokens, request.loadable_tokens
            step.load(Load(request.request_id, request.block_table, start, end))
        else:
            life.admit(request, now_s)
            self._prefill(request, step, now_s)
        return None

    def _prefill(self, request: Request, step: Step, now_s: float) -> None:
        chunk = step.prefill(request, yields=self._life.waiting.yields(request, now_s))
        self._life.tenants.charge(request, request.computed_tokens + chunk)

    def _loads(self, request: Request) -> bool:
        """Whether a request that has just got its blocks waits for KV instead of computing it."""
        if request.load_until_s is not None or request.loadable_tokens <= request.computed_tokens:
            return False
        loading = sum(len(other.block_table) for other in self._life.running.loads.values())
        most = MAX_LOADING_RATIO * self._life.kv.pool.num_blocks
        return loading + len(request.block_table) <= most

    def _draft(self, drafter: Drafter, step: Step, decodes: Sequence[Request]) -> None:
        for index, request in enumerate(decodes):
            most = min(step.left_tokens, request.token_limit - request.total_tokens - 1)
            if most > 0 and (draft_ids := drafter.draft(request, most)[:most]):
                room = self._life.kv.spare_room(request, len(draft_ids))
                step.draft(index, draft_ids[:room])
