"""From logits to token ids.

Greedy is an argmax and nothing else. Pure temperature inverts the cumulative distribution. With a filter the
few best candidates are found and the draw is among them; where they do not hold all that the filters leave,
that row is widened. The vocabulary is never sorted, and each row uses one uniform number that the caller
draws.

Order of filters: temperature, then `min_p` and `top_k`, then `top_p` on what these left, as in vLLM.

A row whose logits are no distribution (a NaN or an infinity in them, or nothing that may be chosen) yields
`NO_TOKEN`; the others are untouched by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from headrace_engine.core.sampling import Sampling
from headrace_engine.runner.candidates import top_candidates
from headrace_engine.runner.logsumexp import logsumexp_

NO_TOKEN = -1
_COLDEST = 1e-5
"""Below this temperature logits would leave the range of float32: it is greedy."""
_CANDIDATES = 64


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
        return self.sampling.top_k > 0 or self.sampling.top_p < 1 or self.sampling.min_p > 0


def sample(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """One token id, or `NO_TOKEN`, per row of `logits` [rows, vocabulary]."""
    if all(draw.is_greedy for draw in draws):
        return _argmax(logits, draws)
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
    """The largest of a row with a NaN is that NaN."""
    best = logits.argmax(dim=-1)
    is_number = logits.gather(1, best[:, None])[:, 0].isfinite()
    chosen: list[int] = best.where(is_number, NO_TOKEN).tolist()
    return chosen


def _sample_pure(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    cumulative = functional.softmax(_tempered(logits, draws), dim=-1).cumsum(dim=-1)
    chosen: list[int] = _invert(cumulative, cumulative[:, -1:], draws).tolist()
    return chosen


def _sample_filtered(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    scaled = _tempered(logits, draws)
    total = logsumexp_(scaled.clone())
    values, ids = top_candidates(scaled, _CANDIDATES)
    index, suffices = _choose(values, total, draws)
    chosen = _at(ids, index)
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
            return _at(ids, index)[0]


def _at(ids: Tensor, index: Tensor) -> list[int]:
    chosen = ids.gather(1, index.clamp(min=0)[:, None])[:, 0]
    told: list[int] = chosen.where(index != NO_TOKEN, NO_TOKEN).tolist()
    return told


def _choose(values: Tensor, total: Tensor, draws: Sequence[Draw]) -> tuple[Tensor, Tensor]:
    """The index of the chosen one among each row's candidates, and whether these hold all that may be chosen.

    `values` are in falling order; `total` is the logarithm of the whole row's mass.
    """
    count = values.shape[-1]
    top_k, top_p, min_p = (
        torch.tensor([[getattr(draw.sampling, name)] for draw in draws], device=values.device)
        for name in ("top_k", "top_p", "min_p")
    )
    too_many = (top_k > 0) & (torch.arange(count, device=values.device) >= top_k)
    too_unlikely = values < values[:, :1] + min_p.log()
    values = values.masked_fill(too_many | too_unlikely, -torch.inf)
    is_cut = values[:, -1:].isneginf() | ((top_k > 0) & (top_k <= count))
    total = torch.where(is_cut, values.logsumexp(dim=-1, keepdim=True), total)
    mass = (values - total).exp().cumsum(dim=-1)
    # The smallest set that reaches top_p: everything up to the first that does.
    last = (mass < top_p).sum(dim=-1, keepdim=True).clamp(max=count - 1)
    is_bounded = (top_k > 0) | (min_p > 0)
    suffices = is_cut | (~is_bounded & (mass[:, -1:] >= top_p))
    return _invert(mass, mass.gather(1, last), draws), suffices[:, 0]


def _tempered(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    temperatures = torch.tensor([[draw.sampling.temperature] for draw in draws], device=logits.device)
    return logits.float() / temperatures


def _invert(mass: Tensor, whole: Tensor, draws: Sequence[Draw]) -> Tensor:
    """The first index of each row whose cumulative mass exceeds the row's uniform share of `whole`.

    `NO_TOKEN` where none does, because they are no numbers.
    """
    uniforms = torch.tensor([[draw.uniform] for draw in draws], device=mass.device)
    # Rounding may lift the share to the whole, which no index exceeds.
    share = torch.minimum(uniforms * whole, torch.nextafter(whole, torch.zeros_like(whole)))
    index = torch.searchsorted(mass, share, right=True)[:, 0]
    return index.where(index < mass.shape[-1], NO_TOKEN)
