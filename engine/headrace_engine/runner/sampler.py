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

from headrace_engine.core.sampling import Sampling

_COLDEST = 1e-5
"""Below this temperature logits would leave the range of float32: it is greedy."""
_CANDIDATES = 64
_GROUP_WIDTH = 64


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
    chosen: list[int] = _invert(cumulative, cumulative[:, -1:], draws).tolist()
    return chosen


def _sample_filtered(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    scaled = _tempered(logits, draws)
    total = scaled.logsumexp(dim=-1, keepdim=True)
    values, ids = top_candidates(scaled, _CANDIDATES)
    index, suffices = _choose(values, total, draws)
    chosen = ids.gather(1, index[:, None])[:, 0].tolist()
    for row in (~suffices).nonzero()[:, 0].tolist():
        chosen[row] = _sample_wide(scaled[row : row + 1], total[row : row + 1], draws[row])
    return chosen


def _sample_wide(scaled: Tensor, total: Tensor, draw: Draw) -> int:
    """One row whose filters reach beyond the first candidates."""
    width, wide = scaled.shape[-1], _CANDIDATES
    while True:
        wide = min(width, max(16 * wide, draw.sampling.top_k))
        values, ids = scaled.topk(wide)
        index, suffices = _choose(values, total, [draw])
        if wide == width or bool(suffices):
            return int(ids[0, index])


def _choose(values: Tensor, total: Tensor, draws: Sequence[Draw]) -> tuple[Tensor, Tensor]:
    """The index of the chosen one among each row's candidates, and whether these hold all that may be chosen.

    `values` are in falling order; `total` is the logarithm of the whole row's mass.
    """
    count = values.shape[-1]
    top_k = torch.tensor([[draw.sampling.top_k] for draw in draws], device=values.device)
    top_p = torch.tensor([[draw.sampling.top_p] for draw in draws], device=values.device)
    beyond = (top_k > 0) & (torch.arange(count, device=values.device) >= top_k)
    values = values.masked_fill(beyond, -torch.inf)
    total = torch.where(top_k > 0, values.logsumexp(dim=-1, keepdim=True), total)
    mass = (values - total).exp().cumsum(dim=-1)
    # The smallest set that reaches top_p: everything up to the first that does.
    last = (mass < top_p).sum(dim=-1, keepdim=True).clamp(max=count - 1)
    suffices = torch.where(top_k > 0, top_k <= count, mass[:, -1:] >= top_p)
    return _invert(mass, mass.gather(1, last), draws), suffices[:, 0]


def _tempered(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    temperatures = torch.tensor([[draw.sampling.temperature] for draw in draws], device=logits.device)
    return logits.float() / temperatures


def _invert(mass: Tensor, whole: Tensor, draws: Sequence[Draw]) -> Tensor:
    """The first index of each row whose cumulative mass exceeds the row's uniform share of `whole`."""
    uniforms = torch.tensor([[draw.uniform] for draw in draws], device=mass.device)
    # Rounding may lift the share to the whole, which no index exceeds.
    share = torch.minimum(uniforms * whole, torch.nextafter(whole, torch.zeros_like(whole)))
    return torch.searchsorted(mass, share, right=True)[:, 0]


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
    members = torch.arange(_GROUP_WIDTH, device=values.device)
    indices = (best_groups[:, :, None] * _GROUP_WIDTH + members).flatten(1)
    ungrouped = torch.arange(groups * _GROUP_WIDTH, width, device=values.device).expand(rows, -1)
    indices = torch.cat((indices, ungrouped), dim=1)
    best = values.gather(1, indices).topk(count, dim=-1)
    return best.values, indices.gather(1, best.indices)
