"""Matrix products with a weight that never changes, in which no row depends on the others.

On CPU, oneDNN's packed layout is 1.3 to 2.5 times faster than a plain product at 4 to 32 rows, which is where
continuous batching lives. The packing operators are private to torch: they are looked up by name, checked on
the first weight of each shape, and left out where either fails.
"""

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from headrace_engine.runner.batch_invariance import (
    DISTINCT_ROWS,
    Linear,
    batch_invariant,
    find_least_rows,
    of_few_rows,
)

_PACKED_FOR_ROWS = 16


def make_linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """`x @ weight.T + bias`, in the fastest form that this machine computes right, and batch invariant.

    The number of torch's threads is that of now.
    """
    shape, dtype = (len(weight), weight.shape[1]), weight.dtype
    product = _packed if _packing_holds(shape, dtype) else _plain
    # First: the weight that it makes up is gone before the packed one stays.
    least_rows = find_least_rows(product, shape, dtype, torch.get_num_threads())
    return batch_invariant(product(weight, bias), least_rows)


def _plain(weight: Tensor, bias: Tensor | None = None) -> Linear:
    return lambda x: functional.linear(x, weight, bias)


def _packed(weight: Tensor, bias: Tensor | None = None) -> Linear:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, _PACKED_FOR_ROWS)  # noqa: SLF001
    multiply = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001
    return lambda x: multiply(x, packed, bias, "none", [], "")


@cache
def _packing_holds(shape: tuple[int, int], dtype: torch.dtype) -> bool:
    """Whether the packed product of this shape equals the plain one, at one row and at several."""
    if not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    some = torch.randn(min(shape[0], DISTINCT_ROWS), shape[1], generator=generator).to(dtype)
    weight = of_few_rows(some, shape[0])
    tolerance = 1e-4 if dtype is torch.float32 else 5e-2
    try:
        packed, plain = _packed(weight), _plain(weight)
        for rows in (1, 5):
            x = torch.randn(rows, shape[1], generator=generator).to(dtype)
            expected = plain(x)
            if not torch.allclose(
                packed(x), expected, rtol=tolerance, atol=tolerance * float(expected.abs().max())
            ):
                return False
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return True
