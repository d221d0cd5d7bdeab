"""From logits to token ids.

Greedy is an argmax and nothing else. Pure temperature inverts the cumulative distribution. With `top_k` or
`top_p` the few best candidates are found in two stages (maxima of groups, then the exact best inside the best
groups) and the draw is among them; where they do not hold enough mass for `top_p`, that row is widened. The
vocabulary is never sorted, and each row uses one uniform number that the caller draws.

Order of filters: temperature, then `top_k`, then `top_p` on what is left, as in vLLM.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from headrace_engine.core.request import Sampling

_COLDEST = 1e-5
"""Below this temperature logits would leave the range of float32: it is greedy."""
_CANDIDATES = 64
_GROUP_WIDTH = 256


@dataclass(frozen=True, slots=True)
class Draw:
    """How one row is sampled: the request's settings and a number in [0, 1), unused when greedy."""

    sampling: Sampling
    uniform: float

    @property
    def is_greedy(self) -> bool:
        return self.sampling.temperature < _COLDEST

    @property
    def is_filtered(self) -> bool:
        return self.sampling.top_k > 0 or self.sampling.top_p < 1


def sample(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """One token id per row of `logits` [rows, vocabulary]."""
    if all(draw.is_greedy for draw in draws):
        return logits.argmax(dim=-1).tolist()
    chosen = [0] * len(draws)
    for select, choose in ((_greedy, _argmax), (_filtered, _sample_filtered), (_pure, _sample_pure)):
        rows = [row for row, draw in enumerate(draws) if select(draw)]
        if rows:
            picked = logits if len(rows) == len(draws) else logits[rows]
            for row, token in zip(rows, choose(picked, [draws[row] for row in rows]), strict=True):
                chosen[row] = token
    return chosen


def _greedy(draw: Draw) -> bool:
    return draw.is_greedy


def _filtered(draw: Draw) -> bool:
    return not draw.is_greedy and draw.is_filtered


def _pure(draw: Draw) -> bool:
    return not draw.is_greedy and not draw.is_filtered


def _argmax(logits: Tensor, _draws: Sequence[Draw]) -> list[int]:
    return logits.argmax(dim=-1).tolist()


def _sample_pure(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    cumulative = functional.softmax(_tempered(logits, draws), dim=-1).cumsum(dim=-1)
    return _invert(cumulative, draws).tolist()


def _sample_filtered(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    scaled = _tempered(logits, draws)
    total = scaled.logsumexp(dim=-1, keepdim=True)
    values, ids = top_candidates(scaled, _CANDIDATES)
    chosen = []
    for row, draw in enumerate(draws):
        sampling, row_values, row_ids = draw.sampling, values[row], ids[row]
        while not _suffice(row_values, total[row], sampling) and len(row_values) < scaled.shape[-1]:
            wide = max(len(row_values) * 16, sampling.top_k)
            row_values, row_ids = scaled[row].topk(min(wide, scaled.shape[-1]))
        chosen.append(int(row_ids[_draw_candidate(row_values, total[row], draw)]))
    return chosen


def _suffice(values: Tensor, total: Tensor, sampling: Sampling) -> bool:
    """Whether the candidates hold everything that the filters could keep."""
    if sampling.top_k:
        return len(values) >= sampling.top_k
    return float((values - total).exp().sum()) >= sampling.top_p


def _draw_candidate(values: Tensor, total: Tensor, draw: Draw) -> int:
    """The index of the chosen one among candidates in falling order."""
    sampling = draw.sampling
    if sampling.top_k:
        values = values[: sampling.top_k]
        total = values.logsumexp(dim=-1)
    cumulative = (values - total).exp().cumsum(dim=-1)
    # The smallest set that reaches top_p: everything up to the first that does.
    kept = 1 + int(torch.searchsorted(cumulative, sampling.top_p)) if sampling.top_p < 1 else len(cumulative)
    return int(_invert(cumulative[None, :kept], [draw]))


def _tempered(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    temperatures = torch.tensor([[draw.sampling.temperature] for draw in draws], device=logits.device)
    return logits.float() / temperatures


def _invert(cumulative: Tensor, draws: Sequence[Draw]) -> Tensor:
    """The first index of each row whose cumulative mass exceeds the row's uniform share of the whole."""
    uniforms = torch.tensor([[draw.uniform] for draw in draws], device=cumulative.device)
    whole = cumulative[:, -1:]
    # Rounding may lift the share to the whole, which no index exceeds.
    share = torch.minimum(uniforms * whole, torch.nextafter(whole, torch.zeros_like(whole)))
    return torch.searchsorted(cumulative, share, right=True).squeeze(-1)


def top_candidates(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row and their indices, in falling order; exact, in one pass over the row.

    Each of the best `count` values stands in one of the `count` groups with the largest maxima.
    """
    rows, width = values.shape
    groups = width // _GROUP_WIDTH
    if groups <= 2 * count:
        return values.topk(min(count, width), dim=-1)
    grouped = values[:, : groups * _GROUP_WIDTH].view(rows, groups, _GROUP_WIDTH)
    best_groups = grouped.amax(dim=-1).topk(count, dim=-1).indices
    starts = best_groups * _GROUP_WIDTH
    indices = (starts[:, :, None] + torch.arange(_GROUP_WIDTH, device=values.device)).flatten(1)
    tail = torch.arange(groups * _GROUP_WIDTH, width, device=values.device).expand(rows, -1)
    indices = torch.cat((indices, tail), dim=1)
    best = values.gather(1, indices).topk(count, dim=-1)
    return best.values, indices.gather(1, best.indices)
