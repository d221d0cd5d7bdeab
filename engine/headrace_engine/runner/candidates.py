"""The best of each row of logits, without sorting the vocabulary; of equal ones the lower ids.

In bfloat16 equal logits are common. Which of them are taken must not depend on how many are asked for, which
is the most that any request of a step asks for.
"""

import torch
from torch import Tensor

_GROUP_WIDTH = 64
_ID_BITS = 32


def top_candidates(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of float32 `values` and their indices, in falling order; exact, in one
    pass over the row. What is no number counts as the largest.

    Each of the best `count` values stands in one of the `count` groups with the largest maxima.
    """
    rows, width = values.shape
    if not count:
        return values[:, :0], values[:, :0].long()
    groups = width // _GROUP_WIDTH
    ids = torch.arange(width, device=values.device).expand(rows, -1)
    if groups <= 2 * count:
        best = _best(values, ids, min(count, width))
        return values.gather(1, best), best
    grouped = values[:, : groups * _GROUP_WIDTH].view(rows, groups, _GROUP_WIDTH)
    best_groups = _best(grouped.amax(dim=-1), ids[:, :groups], count)
    members = (best_groups[:, :, None] * _GROUP_WIDTH + ids[0, :_GROUP_WIDTH]).flatten(1)
    members = torch.cat((members, ids[:, groups * _GROUP_WIDTH :]), dim=1)
    best = _best(values.gather(1, members), members, count)
    return values.gather(1, best), best


def _best(values: Tensor, ids: Tensor, count: int) -> Tensor:
    """The ids of the `count` best: a whole number holds a value, in its order, and below it what prefers
    lower ids.
    """
    bits = values.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf).add_(0.0).view(torch.int32)
    in_order = bits ^ ((bits >> (_ID_BITS - 1)) & 0x7FFF_FFFF)
    keys = (in_order.long() << _ID_BITS) - ids
    return -keys.topk(count, dim=-1).values & ((1 << _ID_BITS) - 1)
