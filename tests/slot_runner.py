"""A runner without a model, for proving what a scheduler computes.

A slot of its KV memory holds a digest of the whole context that was computed into it. So it tells from the
rows of a plan alone whether every position was computed before it is attended to, whether a row writes where
another reads, and whether a request was given blocks with another context.
"""

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b

from headrace_engine.core.plan import Load, Outcome, Plan, Row
from headrace_engine.core.request import Request
from headrace_engine.core.sampling import TokenLogprobs

VOCABULARY = 5
STOP_ID = 0


@cache
def kv_value(before: int, token_id: int) -> int:
    """What a slot holds after `token_id` was computed in the context that `before` stands for."""
    return int.from_bytes(blake2b(f"{before},{token_id}".encode(), digest_size=8).digest())


def empty_context(request: Request) -> int:
    """What stands before the first token: those who may not share have different ones."""
    return kv_value(0, int.from_bytes(request.block_salt))


def next_token(context: int) -> int:
    """What a greedy model samples in a context."""
    return context % VOCABULARY


def alone(request: Request) -> list[int]:
    """What a request generates when nothing else is in the world and it is not cut short."""
    context = empty_context(request)
    for token_id in request.prompt_token_ids:
        context = kv_value(context, token_id)
    output: list[int] = []
    while len(output) < request.token_limit - len(request.prompt_token_ids):
        output.append(next_token(context))
        context = kv_value(context, output[-1])
        if output[-1] in request.stop_token_ids and len(output) >= request.min_tokens:
            break
    return output


class Guesser:
    """A drafter that is right for a while and then wrong, the same way every time."""

    def draft(self, request: Request, most_tokens: int) -> Sequence[int]:
        length = request.total_tokens % 4
        right = alone(request)[len(request.output_token_ids) :][:length]
        return [*right, VOCABULARY, VOCABULARY][:most_tokens] if length else []


def score(row: Row, request: Request) -> list[TokenLogprobs]:
    """Of each prompt token that is asked about: minus its position, which tells them apart."""
    assert row.scoring is not None
    first = row.start + row.scoring.offset
    end = first + len(row.scoring.successors)
    assert row.start <= first < end <= row.start + len(row.token_ids), "only what is computed is scored"
    assert list(row.scoring.successors) == list(request.prompt_token_ids[first + 1 : end + 1])
    return [TokenLogprobs(-float(position), 1) for position in range(first, end)]


class SlotRunner:
    """Computes plans, and fails where a row attends to what is not its own context."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._block_size = block_size
        self._slots: list[list[int | None]] = [[None] * block_size for _ in range(num_blocks)]

    def run(self, plan: Plan, requests: dict[str, Request]) -> Outcome:
        computed = {row.request_id: self._compute(row, requests[row.request_id]) for row in plan.rows}
        sampled = {name: ids for name, ids in computed.items() if ids}
        scored = {row.request_id: score(row, requests[row.request_id]) for row in plan.rows if row.scoring}
        return Outcome(sampled, 0.001, prompt_logprobs=scored)

    def poison(self, plan: Plan) -> None:
        """A step that broke half-way left garbage where it was to write."""
        for row in plan.rows:
            for position in range(row.start, row.start + len(row.token_ids)):
                self._write(row.block_table, position, -1)

    def bring(self, load: Load, request: Request, num_tokens: int) -> None:
        """Write the KV of the first `num_tokens` tokens as another engine computed it."""
        context = empty_context(request)
        for position, token_id in enumerate(request.tokens(0, num_tokens)):
            context = kv_value(context, token_id)
            if position >= load.start:
                self._write(load.block_table, position, context)

    def content(self, blocks: Sequence[int]) -> list[list[int | None]]:
        """What blocks hold."""
        return [list(self._slots[block]) for block in blocks]

    def _compute(self, row: Row, request: Request) -> list[int]:
        """Check and compute a row; what is sampled of it."""
        num_drafts = max(0, row.sampled_rows - 1)
        known = request.tokens(0, request.total_tokens)
        end = row.start + len(row.token_ids) - num_drafts
        assert row.token_ids, "no row is empty"
        assert list(row.token_ids) == known[row.start : end] + list(row.token_ids[end - row.start :])
        wants_more = request.token_limit > len(request.prompt_token_ids)
        assert bool(row.sampled_rows) == (end == len(known) and wants_more), (
            "a row samples where its tokens end"
        )
        context = empty_context(request)
        for position, token_id in enumerate(known[: row.start]):
            context = kv_value(context, token_id)
            assert self._read(row, position) == context, "attention reads what this very context computed"
        after: list[int] = []
        for position, token_id in enumerate(row.token_ids, start=row.start):
            context = kv_value(context, token_id)
            self._write(row.block_table, position, context)
            after.append(context)
        return self._verified(row, after)

    def _verified(self, row: Row, after: list[int]) -> list[int]:
        """What is sampled after each of the last rows, up to the first that its draft did not guess."""
        sampled: list[int] = []
        for index in range(len(row.token_ids) - row.sampled_rows, len(row.token_ids)):
            sampled.append(next_token(after[index]))
            if index + 1 < len(row.token_ids) and row.token_ids[index + 1] != sampled[-1]:
                break
        return sampled

    def _read(self, row: Row, position: int) -> int | None:
        return self._slots[row.block_table[position // self._block_size]][position % self._block_size]

    def _write(self, block_table: Sequence[int], position: int, value: int) -> None:
        self._slots[block_table[position // self._block_size]][position % self._block_size] = value
