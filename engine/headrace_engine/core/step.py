"""One step being filled: rows are added while tokens and milliseconds last, then it is frozen into a plan."""

from collections.abc import Sequence
from dataclasses import replace

from headrace_engine.core.limits import Limits
from headrace_engine.core.plan import Hold, Load, Plan, Row, Scoring, new_row
from headrace_engine.core.request import Request
from headrace_engine.core.step_model import NO_WORK, Forecast, StepWork

LEAST_CHUNK_RATIO = 0.1
"""However little time is left, one prefill goes on by what makes the step longer by this part, and by a token
at least: none is starved.
"""
YIELDING_SHARE = 8
"""A prompt that yields adds nothing to a step that has computed this part of its budget in prompts."""


class Step:
    """A throw-away budget. Decodes take their tokens whatever they cost; prefills share what they leave."""

    def __init__(self, step_id: int, limits: Limits, forecast: Forecast | None) -> None:
        self.step_id = step_id
        self.budget_tokens = limits.max_num_batched_tokens
        self.left_tokens = self.budget_tokens
        self._yielding_tokens = max(1, self.budget_tokens // YIELDING_SHARE)
        self._num_partial = 0
        self._most_partial = limits.max_num_partial_prefills or self.budget_tokens
        self._chunk_tokens = limits.long_prefill_token_threshold or self.budget_tokens
        self._budget_s = limits.max_step_ms / 1000
        self._forecast = forecast
        self._rows: list[Row] = []
        self._loads: list[Load] = []
        self._work = NO_WORK
        self._num_decodes = 0
        self._num_drafts = 0
        self._context_tokens = 0

    def share_of(self, decodes: list[Request]) -> list[Request]:
        """Those of `decodes` that the budget covers: all, or else each in its turn from step to step."""
        if len(decodes) <= self.left_tokens:
            return decodes
        first = self.step_id * self.left_tokens % len(decodes)
        return (decodes + decodes)[first : first + self.left_tokens]

    def decode(self, requests: Sequence[Request]) -> None:
        """Compute the one pending token of each and sample the next."""
        self._rows = [
            new_row(
                (
                    request.request_id,
                    request.computed_tokens,
                    request.output_token_ids[-1:],
                    request.block_table,
                    1,
                    request.sampling,
                    request.past,
                    None,
                )
            )
            for request in requests
        ]
        self._num_decodes = len(requests)
        self._context_tokens = sum([row.start for row in self._rows]) + len(requests)
        self._work = StepWork(len(requests), self._context_tokens, 0.0, len(requests))
        self.left_tokens -= len(requests)

    def prefill(self, request: Request, *, yields: bool = False) -> int:
        """Compute as many pending tokens as the budgets leave; sample if they reach the last. Returns how
        many.
        """
        start = request.computed_tokens
        most = min(request.pending_tokens, self._chunk_tokens, self._left(yields=yields))
        chunk = self._chunk(start, most)
        if not chunk:
            return 0
        end = start + chunk
        sampled_rows = 1 if end == request.total_tokens and request.max_tokens else 0
        token_ids = request.tokens(start, end)
        self._rows.append(
            Row(
                *(request.request_id, start, token_ids, request.block_table, sampled_rows, request.sampling),
                past=request.past,
                scoring=_scoring(request, start, end),
            )
        )
        self._num_partial += end < request.total_tokens
        self._context_tokens += end
        self._work = self._work.with_chunk(start, chunk, sampled_rows)
        self.left_tokens -= chunk
        return chunk

    def load(self, load: Load) -> None:
        """Have KV brought for a request."""
        self._loads.append(load)

    def draft(self, index: int, draft_ids: Sequence[int]) -> None:
        """Check guesses of what follows the decode at `index`."""
        row = self._rows[index]
        self._rows[index] = row._replace(
            token_ids=[*row.token_ids, *draft_ids], sampled_rows=1 + len(draft_ids)
        )
        work = self._work
        self._work = replace(
            work, tokens=work.tokens + len(draft_ids), sampled_rows=work.sampled_rows + len(draft_ids)
        )
        self._num_drafts += len(draft_ids)
        self._context_tokens += len(draft_ids)
        self.left_tokens -= len(draft_ids)

    def hold(self, *, yields: bool = False) -> Hold | None:
        """Why no other prefill, or none that yields, can start in this step; None if one can."""
        if self._num_partial >= self._most_partial:
            return Hold.PARTIAL
        if not self._chunk(0, min(self.left_tokens, 1)):
            return Hold.BUDGET
        return None if self._left(yields=yields) else Hold.YIELD

    def plan(self, preempted: Sequence[str], holds: Sequence[Hold]) -> Plan:
        """The step as it stands."""
        decode_tokens = self._num_decodes + self._num_drafts
        return Plan(
            step_id=self.step_id,
            rows=tuple(self._rows),
            preempted=tuple(preempted),
            num_prefill_tokens=self.budget_tokens - self.left_tokens - decode_tokens,
            num_decode_tokens=decode_tokens,
            num_draft_tokens=self._num_drafts,
            context_tokens=self._context_tokens,
            work=self._work,
            loads=tuple(self._loads),
            budget_tokens=self.budget_tokens,
            holds=tuple(holds),
        )

    def _left(self, *, yields: bool) -> int:
        """Tokens that a prefill may still take."""
        if not yields:
            return self.left_tokens
        prefilled = self.budget_tokens - self.left_tokens - self._num_decodes
        return max(0, min(self.left_tokens, self._yielding_tokens - prefilled))

    def _chunk(self, start: int, most_tokens: int) -> int:
        forecast, work = self._forecast, self._work
        if forecast is None or not most_tokens:
            return most_tokens
        if len(self._rows) > self._num_decodes:
            return forecast.chunk_within(work, start, most_tokens, self._budget_s)
        if self._num_decodes and forecast.wants_decodes_alone:
            return 0
        least_s = (1 + LEAST_CHUNK_RATIO) * forecast.model.predict_s(work)
        return forecast.chunk_within(work, start, most_tokens, max(self._budget_s, least_s)) or 1


def _scoring(request: Request, start: int, end: int) -> Scoring | None:
    """What of a chunk [start, end) is still to be scored. No token before it is."""
    first, last = request.scored_tokens, min(end, len(request.prompt_token_ids) - 1)
    if request.sampling.prompt_logprobs is None or first >= last:
        return None
    return Scoring(first - start, request.prompt_token_ids[first + 1 : last + 1])
