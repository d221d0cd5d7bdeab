"""The scheduler: who computes which tokens in the next step.

    expire(now)             requests that missed their queue deadline end; overdue loads and leases are over
    schedule(now) -> Plan   decodes, then running prefills, then admissions, then drafts (`planner`)
    commit(plan, ...)       computed counts advance, full blocks are published, tokens are told

Invariants: a plan keeps within the limits read at its start; blocks named in a plan are not given away before
it is committed or failed; nothing is admitted in a step that ran out of blocks; a step with work computes at
least one token (unless all that runs is loading); every accepted request ends with exactly one `Finished`.
Single-threaded: the step loop's thread owns it.
"""

from collections.abc import Sequence
from dataclasses import replace

from headrace_engine.core.admission import misfit, most_total_tokens, presumption
from headrace_engine.core.completion import accept
from headrace_engine.core.contract import Contract
from headrace_engine.core.drafter import Drafter
from headrace_engine.core.kv_cache import KVCache
from headrace_engine.core.lifecycle import Lifecycle
from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.past import Past
from headrace_engine.core.plan import (
    Event,
    Finished,
    Hold,
    Outcome,
    Plan,
    PromptLogprobs,
    Rejection,
    Tokens,
    new_tokens,
)
from headrace_engine.core.planner import Planner
from headrace_engine.core.policy import FirstComeFirstServed, Policy
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.request import FinishReason, Request, Status
from headrace_engine.core.sampling import TokenLogprobs
from headrace_engine.core.snapshot import Snapshot
from headrace_engine.core.step import Step
from headrace_engine.core.step_learner import StepLearner
from headrace_engine.core.step_model import Forecast, StepModel
from headrace_engine.core.tenants import Tenants

SAMPLED_NOTHING = "the model yields no token after this text: what it computed is no number"
SCORED_NOTHING = "the prompt has no log probabilities: what the model computed for it is no number"


class Scheduler:
    """One engine's requests, blocks and queue."""

    def __init__(
        self,
        *,
        capacity: Capacity,
        limits: Limits | None = None,
        policy: Policy | None = None,
        tenants: Tenants | None = None,
        prefill_rate: PrefillRate | None = None,
        enable_prefix_caching: bool = True,
        drafter: Drafter | None = None,
        step_model: StepModel | None = None,
        static_batches: bool = False,
    ) -> None:
        self._capacity = capacity
        self._limits = limits or Limits.of(capacity)
        self._limits.validate(capacity)
        self._kv = KVCache(
            capacity.num_blocks, capacity.block_size, enable_prefix_caching=enable_prefix_caching
        )
        waiting = FirstComeFirstServed() if policy is None else policy
        self._life = Lifecycle(self._kv, waiting, Tenants() if tenants is None else tenants)
        self._planner = Planner(self._life, drafter, static_batches=static_batches)
        self._life.tenants.longest_tokens = most_total_tokens(capacity)
        self._given_model = step_model
        self._learner = StepLearner()
        self.prefill_rate = PrefillRate() if prefill_rate is None else prefill_rate
        self._closed = False
        self._step_id = 0
        self._under_way: Plan | None = None

    @property
    def capacity(self) -> Capacity:
        return self._capacity

    @property
    def limits(self) -> Limits:
        return self._limits

    def set_limits(self, limits: Limits) -> None:
        """Let `limits` hold from the next step. Lowering one ends nothing that runs.

        Raises:
            LimitsError: one is outside the capacity; nothing is changed.
        """
        limits.validate(self._capacity)
        self._limits = limits

    @property
    def step_model(self) -> StepModel | None:
        """What `max_step_ms` is predicted by: the one given, or what the engine's own steps have taught while
        it held.
        """
        return self._given_model or self._learner.model

    @property
    def tenants(self) -> Tenants:
        """What each tenant was served, and its terms."""
        return self._life.tenants

    def set_contract(self, contract: Contract) -> None:
        """Let other tenants' terms hold from the next step. Nothing that runs is ended."""
        self._life.tenants.contract = contract
        self._life.waiting.unpark_all()

    def set_policy(self, policy: Policy, now_s: float) -> None:
        """Order those that wait, and all to come, by another policy, which has no requests yet."""
        states = (Status.WAITING, Status.PREEMPTED)
        waiting = [request for request in self._life.requests.values() if request.status in states]
        self._life.tenants.start_over()
        self._life.waiting.replace(policy, waiting, now_s)

    def close(self) -> None:
        """Refuse requests from now on; those accepted are served to their end."""
        self._closed = True

    def has_work(self) -> bool:
        """Whether any accepted request has not ended, or a plan is under way."""
        return bool(self._life.requests) or self._under_way is not None

    def submit(self, request: Request, now_s: float) -> Rejection | None:
        """Take a request into the queue, or say why not. An accepted one ends in exactly one `Finished`."""
        return self.submit_together([request], now_s)

    def submit_together(self, requests: Sequence[Request], now_s: float) -> Rejection | None:
        """Take a group of one tenant's requests into the queue, all or none of them."""
        for request in requests:
            if request.takes_tenants_priority:
                request.priority = self._life.tenants.contract.of(request.tenant).priority
        rejection = self._refuse(requests)
        if rejection is None:
            for request in requests:
                self._enter(request, now_s)
        return rejection

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> Finished | None:
        """End a request wherever it stands; None if it is unknown or has ended.

        Its blocks are free at once, or when the plan under way is committed or failed.
        """
        request = self._life.requests.get(request_id)
        return None if request is None else self._life.finish(request, reason)

    def loaded(self, request_id: str, num_tokens: int) -> bool:
        """The KV of a request's first `num_tokens` tokens was brought; 0 if it could not be.

        False, and nothing is changed, if the request is not loading any more: what was brought is void.
        """
        request = self._life.running.loads.get(request_id)
        if request is None:
            return False
        self._life.loaded(request, num_tokens)
        return True

    def renew_lease(self, request_id: str, until_s: float) -> bool:
        """Keep the leased blocks of an ended request until then; False if the lease is over."""
        return self._life.leases.renew(request_id, until_s)

    def end_lease(self, request_id: str) -> bool:
        """Give the leased blocks of an ended request back; False if that was done before."""
        return self._life.leases.end(request_id)

    def expire(self, now_s: float) -> list[Finished]:
        """End what is overdue. Called before `schedule`.

        Requests not scheduled by their queue deadline end; a load not done in time becomes an ordinary
        prefill.
        """
        self._life.leases.expire(now_s)
        for request in list(self._life.running.loads.values()):
            if request.load_until_s is not None and request.load_until_s <= now_s:
                self._life.loaded(request, 0)
        return [
            self._life.finish(request, FinishReason.EXPIRED, "not scheduled by its queue deadline")
            for request in self._life.deadlines.expired(now_s)
        ]

    def schedule(self, now_s: float) -> Plan:
        """Plan the next step. Every plan, an empty one too, is committed or failed before the next."""
        assert self._under_way is None, "commit or fail the plan under way before making the next"
        self._step_id += 1
        step = Step(self._step_id, self._limits, self._forecast())
        plan = self._under_way = self._planner.fill(step, self._limits, now_s)
        self._life.queue.step(now_s)
        self._life.computing = True
        return plan

    def commit(self, plan: Plan, outcome: Outcome, now_s: float) -> list[Event]:
        """Apply what the runner computed.

        Events come in this order: preemptions and first schedulings as planned, then row by row the tokens of
        a request and, if it ended, its `Finished`. Nothing is told of a request after its `Finished`.
        """
        events = self._close_plan(plan)
        self._measure(plan, outcome)
        requests, sampled = self._life.requests, outcome.sampled
        for request_id, _, row_token_ids, _, sampled_rows, _, _, scoring in plan.rows:
            request = requests.get(request_id)
            if request is None:
                continue
            if scoring is not None:
                scores = outcome.prompt_logprobs.get(request_id)
                if scores is None:
                    events.append(self._life.finish(request, FinishReason.ERROR, SCORED_NOTHING))
                    continue
                request.scored_tokens += len(scoring.successors)
                events.append(PromptLogprobs(request_id, scores))
            if sampled_rows:
                known = len(row_token_ids) - sampled_rows
                token_ids = sampled.get(request_id, ())
                if len(token_ids) > sampled_rows:
                    token_ids = token_ids[:sampled_rows]
                logprobs = outcome.logprobs.get(request_id) if outcome.logprobs else None
                self._accept(request, known, token_ids, now_s, events, logprobs=logprobs)
                continue
            self._kv.advance(request, len(row_token_ids))
            if not request.pending_tokens:
                events.append(self._end(request, FinishReason.LENGTH, now_s))
        return events

    def fail(self, plan: Plan, message: str) -> list[Event]:
        """The step could not be computed: its requests end with `ERROR`; others are untouched.

        Nothing of the step was published, so no half-written block can be found later.
        """
        events = self._close_plan(plan)
        for row in plan.rows:
            request = self._life.requests.get(row.request_id)
            if request is not None:
                events.append(self._life.finish(request, FinishReason.ERROR, message))
        return events

    def snapshot(self, now_s: float) -> Snapshot:
        """What is held at this moment."""
        life, pool, leased = self._life, self._kv.pool, self._life.leases.num_leased
        return Snapshot(
            num_running=len(life.running),
            num_waiting=len(life.waiting),
            num_newcomers=life.queue.num_newcomers,
            waiting_tokens=life.queue.waiting_tokens,
            oldest_waiting_age_s=life.queue.oldest_age_s(now_s),
            num_blocks=pool.num_blocks,
            free_blocks=pool.num_free,
            cached_blocks=pool.num_cached,
            leased_blocks=leased,
            referenced_blocks=pool.num_referenced - leased,
            accepted_total=life.num_accepted,
            finished_total=life.num_finished,
            preemptions_total=life.preemptions,
            prefix_query_tokens_total=life.prefix_query_tokens,
            prefix_hit_tokens_total=life.prefix_hit_tokens,
        )

    def _enter(self, request: Request, now_s: float) -> None:
        longest = len(request.prompt_token_ids) + request.max_tokens
        request.token_limit = min(longest, most_total_tokens(self._capacity))
        request.past = Past.of(request.prompt_token_ids) if request.sampling.steering else None
        self._life.enter(request, now_s)

    def _refuse(self, requests: Sequence[Request]) -> Rejection | None:
        if self._closed:
            return Rejection("draining", "This engine is shutting down. Send the request to another.")
        tenant = requests[0].tenant
        running, terms = self._life.running, self._life.tenants.contract.of(tenant)
        for request in requests:
            if self._life.is_served(name := request.request_id):
                return Rejection("duplicate_id", f"A request with the id {name} is being served.")
            if refused := misfit(request, self._capacity) or presumption(request, terms):
                return refused
        free_slots = self._limits.max_num_seqs - len(running)
        if terms.max_num_seqs is not None:
            free_slots = min(free_slots, terms.max_num_seqs - running.num_of(tenant))
        return self._life.queue.refuse(requests, self._limits, terms, free_slots, alone=not len(running))

    def _close_plan(self, plan: Plan) -> list[Event]:
        assert plan is self._under_way, "this plan is not the one under way"
        self._under_way = None
        return list(self._life.computed())

    def _forecast(self) -> Forecast | None:
        if not self._limits.max_step_ms:
            return None
        return Forecast(self._given_model) if self._given_model else self._learner.forecast()

    def _measure(self, plan: Plan, outcome: Outcome) -> None:
        """How long such a step takes, and how fast one full of prompts is."""
        if plan.rows and self._limits.max_step_ms and self._given_model is None:
            self._learner.observe(plan.work, outcome.duration_s, num_prefill_tokens=plan.num_prefill_tokens)
        full = 2 * plan.num_prefill_tokens >= plan.budget_tokens or Hold.BUDGET in plan.holds
        if full and plan.num_prefill_tokens:
            self.prefill_rate.observe(plan.num_prefill_tokens, outcome.duration_s)

    def _accept(
        self,
        request: Request,
        known: int,
        token_ids: Sequence[int],
        now_s: float,
        events: list[Event],
        *,
        logprobs: Sequence[TokenLogprobs] | None,
    ) -> None:
        """Take what was sampled after a row with `known` tokens before the first that is sampled after."""
        if not token_ids:
            events.append(self._life.finish(request, FinishReason.ERROR, SAMPLED_NOTHING))
            return
        kept, reason = accept(request, token_ids)
        request.take(kept)
        self._kv.advance(request, known + len(kept))
        if reason is None:
            events.append(new_tokens((request.request_id, kept, logprobs and logprobs[: len(kept)])))
            if request.request_id in self._life.running.prefills:
                self._life.prefilled(request)
            return
        stop_token_id = kept[-1] if reason is FinishReason.STOP else None
        told = len(kept) if stop_token_id is None else len(kept) - 1
        if told:
            events.append(Tokens(request.request_id, kept[:told], logprobs and logprobs[:told]))
        ended = self._end(request, reason, now_s, stop_token_id)
        if logprobs is not None and stop_token_id is not None:
            ended = replace(ended, stop_logprobs=logprobs[told])
        events.append(ended)

    def _end(
        self, request: Request, reason: FinishReason, now_s: float, stop_token_id: int | None = None
    ) -> Finished:
        """End a request that has all it wanted; what it leased outlives it."""
        until_s = now_s + request.lease_s if request.lease_s else None
        return self._life.finish(request, reason, stop_token_id=stop_token_id, lease_until_s=until_s)
