"""How likely tokens are: log probabilities of the model's own logits, in float32.

Rows are scored a slice at a time, so that what it takes beside the logits is bounded whatever the vocabulary;
for a prompt the logits themselves are made slice by slice, and no tensor has its length times the vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from headrace_engine.core.sampling import TokenLogprobs
from headrace_engine.runner.candidates import top_candidates
from headrace_engine.runner.logsumexp import logsumexp_

SLICE_BYTES = 8 << 20
"""Of float32 logits, and little more stands in memory at once."""


def token_logprobs(
    logits: Tensor, rows: Sequence[int], token_ids: Sequence[int], num_tops: Sequence[int]
) -> list[TokenLogprobs]:
    """Of one token in each of these rows of `logits`, with so many of the row's likeliest."""
    scored: list[TokenLogprobs] = []
    for part in _slices(len(rows), logits.shape[-1]):
        of_part = logits[torch.tensor(rows[part], device=logits.device)]
        scored += _scored(of_part, token_ids[part], num_tops[part])
    return scored


def successor_logprobs(
    hidden: Tensor,
    head: Callable[[Tensor], Tensor],
    vocab_size: int,
    token_ids: Sequence[int],
    num_top: int,
) -> list[TokenLogprobs]:
    """Of one token per row of `hidden`, whose logits `head` makes."""
    scored: list[TokenLogprobs] = []
    for rows in _slices(len(token_ids), vocab_size):
        scored += _scored(head(hidden[rows]), token_ids[rows], [num_top] * len(token_ids[rows]))
    return scored


def _slices(count: int, vocab_size: int) -> Iterator[slice]:
    width = max(1, SLICE_BYTES // (4 * vocab_size))
    return (slice(first, min(first + width, count)) for first in range(0, count, width))


def _scored(logits: Tensor, token_ids: Sequence[int], num_tops: Sequence[int]) -> list[TokenLogprobs]:
    """Overwrites `logits`."""
    logits = logits.float()
    chosen = logits.gather(1, torch.tensor(token_ids, device=logits.device)[:, None])
    ranks = (logits > chosen).sum(dim=-1).add(1).tolist()
    values, ids = top_candidates(logits, max(num_tops))
    total = logsumexp_(logits)
    logprobs = (chosen - total)[:, 0].tolist()
    tops = zip(num_tops, ids.tolist(), (values - total).tolist(), strict=True)
    return [
        TokenLogprobs(logprob, rank, tuple(top_ids[:count]), tuple(top_logprobs[:count]))
        for logprob, rank, (count, top_ids, top_logprobs) in zip(logprobs, ranks, tops, strict=True)
    ]
