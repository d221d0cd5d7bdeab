"""The logarithm of a row's mass, the same to the last bit whichever rows and threads are at work."""

import torch
from torch import Tensor

_GROUP_WIDTH = 64


def logsumexp_(logits: Tensor) -> Tensor:
    """Of each row of float32 `logits`, [rows, 1]. Overwrites them: another tensor of that size would be the
    largest of all.
    """
    most = logits.amax(dim=-1, keepdim=True)
    return _row_sums(logits.sub_(most).exp_()).log_().add_(most)


def _row_sums(values: Tensor) -> Tensor:
    """By way of groups: threads share the sum of a row that is alone, and add it up in another order."""
    grouped = values.shape[-1] // _GROUP_WIDTH * _GROUP_WIDTH
    sums = values[:, :grouped].view(len(values), -1, _GROUP_WIDTH).sum(dim=-1)
    return torch.cat((sums, values[:, grouped:]), dim=1).sum(dim=-1, keepdim=True)
