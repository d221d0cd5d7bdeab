"""The best of each row of logits, without sorting the vocabulary."""

import torch
from torch import Tensor

_GROUP_WIDTH = 64


def top_candidates(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row and their indices, in falling order; exact, in one pass over the row.

    Each of the best `count` values stands in one of the `count` groups with the largest maxima.
    """
    rows, width = values.shape
    if not count:
        return values[:, :0], values[:, :0].long()
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
