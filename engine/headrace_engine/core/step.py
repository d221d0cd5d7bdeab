"""One step being filled: rows are added while the token budget lasts, then it is frozen into a plan."""

from collections.abc import Sequence

from headrace_engine.core.plan import Hold, Plan, Row
from headrace_engine.core.request import Request


class Step:
    """A throw-away budget of `budget_tokens`, `chunk_tokens` of which one request's prefill may take (0:
    all).
    """

    def __init__(self, step_id: int, budget_tokens: int, chunk_tokens: int) -> None:
        self.step_id = step_id
        self.budget_tokens = budget_tokens
        self.left_tokens = budget_tokens
        self._chunk_tokens = chunk_tokens or budget_tokens
        self._rows: list[Row] = []
        self._num_decode_tokens = 0
        self._context_tokens = 0

    def share_of(self, decodes: list[Request]) -> list[Request]:
        """Those of `decodes` that the budget covers: all, or else each in its turn from step to step."""
        if len(decodes) <= self.left_tokens:
            return decodes
        first = self.step_id * self.left_tokens % len(decodes)
        return (decodes + decodes)[first : first + self.left_tokens]

    def decode(self, requests: Sequence[Request]) -> None:
        """Compute the one pending token of each and sample the next."""
        context_tokens = 0
        for request in requests:
            start = request.computed_tokens
            context_tokens += start + 1
            last = request.output_token_ids[-1:]
            self._rows.append(Row(request.request_id, start, last, request.block_table, 1, request.sampling))
        self._context_tokens += context_tokens
        self._num_decode_tokens += len(requests)
        self.left_tokens -= len(requests)

    def prefill(self, request: Request) -> None:
        """Compute as many pending tokens as the budget has left; sample if they reach the last known one."""
        start = request.computed_tokens
        end = start + min(request.pending_tokens, self._chunk_tokens, self.left_tokens)
        if end == start:
            return
        sampled_rows = 1 if end == request.total_tokens else 0
        token_ids = request.tokens(start, end)
        self._rows.append(
            Row(request.request_id, start, token_ids, request.block_table, sampled_rows, request.sampling)
        )
        self._context_tokens += end
        self.left_tokens -= end - start

    def plan(self, preempted: Sequence[str], hold: Hold | None) -> Plan:
        """The step as it stands."""
        return Plan(
            step_id=self.step_id,
            rows=tuple(self._rows),
            preempted=tuple(preempted),
            num_prefill_tokens=self.budget_tokens - self.left_tokens - self._num_decode_tokens,
            num_decode_tokens=self._num_decode_tokens,
            context_tokens=self._context_tokens,
            budget_tokens=self.budget_tokens,
            hold=hold,
        )
