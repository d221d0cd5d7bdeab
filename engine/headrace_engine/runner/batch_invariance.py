"""Products whose rows come out the same, bit by bit, whichever rows are computed with them.

A library picks its way through a product by the number of rows, and two ways may add up in another order:
then what a request says depends on who else is there, on how its prompt was cut and on what the cache held.
Which row counts agree is measured once for each shape, with sums that are nothing but rounding. Fewer rows
are filled up with zeros; where no counts agree, rows are computed in blocks of one size.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

Linear = Callable[[Tensor], Tensor]

_BLOCK_ROWS = 16
_LEAST_ROWS = (1, 2, _BLOCK_ROWS)
DISTINCT_ROWS = 251
"""Of weights that are made up; prime, so that no block of a layout holds the same as the next."""
_COUNTS = (1, 2, 3, 5, 8, 13, 16, 17, 31, 48)
_ALL_ROWS = range(64, 513)
_ALL_WORK = 1 << 31
"""Multiplications in the largest product that is measured, unless `_ALL_ROWS` begins above it."""


def batch_invariant(product: Linear, least_rows: int | None) -> Linear:
    """The same product, each row's bits its own; `least_rows` is what `find_least_rows` found."""
    if least_rows == 1:
        return product
    if least_rows is None:
        return lambda x: _in_blocks(product, x)
    return lambda x: product(x) if len(x) >= least_rows else product(_padded(x, least_rows))[: len(x)]


def _in_blocks(product: Linear, x: Tensor) -> Tensor:
    whole = _padded(x, -(-len(x) // _BLOCK_ROWS) * _BLOCK_ROWS)
    return torch.cat([product(block) for block in whole.split(_BLOCK_ROWS)])[: len(x)]


def _padded(x: Tensor, rows: int) -> Tensor:
    return functional.pad(x, (0, 0, 0, rows - len(x)))


@cache
def find_least_rows(
    make: Callable[[Tensor], Linear], shape: tuple[int, int], dtype: torch.dtype, _threads: int
) -> int | None:
    """From how many rows on the products that `make` makes of weights of this shape agree in every bit.

    None where there is no such number. `_threads` are those that compute: the answer may depend on them.
    """
    rows = min(max(_ALL_WORK // (shape[0] * shape[1]), _ALL_ROWS.start), _ALL_ROWS[-1])
    weight, x = _rounding_alone(shape, rows, dtype)
    product = make(weight)
    expected = product(x)
    # The last rows of all of them, so that they stand elsewhere among fewer.
    apart = [count for count in _COUNTS if not torch.equal(product(x[-count:]), expected[-count:])]
    return next((least for least in _LEAST_ROWS if all(count < least for count in apart)), None)


def _rounding_alone(shape: tuple[int, int], rows: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A weight and rows whose products are zero but for rounding, so that every order of adding up shows."""
    outputs, inputs = shape
    generator = torch.Generator().manual_seed(0)
    half = torch.randperm(inputs // 2, generator=generator)
    some = torch.randn(min(outputs, DISTINCT_ROWS), inputs, generator=generator).to(dtype)
    spread = torch.exp2(torch.randint(-6, 7, (inputs,), generator=generator))
    x = (torch.randn(rows, inputs, generator=generator) * spread).to(dtype)
    some[:, len(half) :] = 0
    some[:, len(half) : 2 * len(half)] = -some[:, half]
    x[:, len(half) : 2 * len(half)] = x[:, half]
    return of_few_rows(some, outputs), x


def of_few_rows(some: Tensor, rows: int) -> Tensor:
    """A weight of that many rows: to draw each of a vocabulary would take longer than to load the model."""
    return some[torch.arange(rows) % len(some)]
