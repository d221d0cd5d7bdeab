"""A plan as tensors: the tokens of all rows side by side, and where each row's context stands."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace_engine.core.plan import Row


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's input, T tokens of R rows.

    Row r owns tokens `query_starts[r]` up to `query_starts[r + 1]`, the last of its `context_lengths[r]`
    tokens; the blocks of its context are `block_tables[r]`, padded with 0.
    """

    token_ids: Tensor
    """[T] int64"""
    positions: Tensor
    """[T] int64, in the sequence"""
    query_starts: Tensor
    """[R + 1] int32"""
    context_lengths: Tensor
    """[R] int32, this step's tokens included"""
    block_tables: Tensor
    """[R, most blocks] int32"""
    wanted: Tensor | None
    """Indices of the tokens whose hidden state is wanted: those whose successor is sampled, in row order,
    then those that are scored. None where every token's successor is sampled.
    """
    num_sampled: int

    @property
    def num_rows(self) -> int:
        return len(self.context_lengths)

    @classmethod
    def of(cls, rows: tuple[Row, ...], block_size: int) -> "Batch":
        """Lays out the rows of a plan."""
        lengths = np.fromiter((len(row.token_ids) for row in rows), np.int32, len(rows))
        starts = np.fromiter((row.start for row in rows), np.int32, len(rows))
        query_starts = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(lengths, out=query_starts[1:])
        total = int(query_starts[-1])
        token_ids = np.fromiter((token for row in rows for token in row.token_ids), np.int64, total)
        positions = np.arange(total, dtype=np.int64) + np.repeat(starts - query_starts[:-1], lengths)
        context_lengths = starts + lengths
        sampled, scored = _wanted_indices(rows, query_starts)
        return cls(
            token_ids=torch.from_numpy(token_ids),
            positions=torch.from_numpy(positions),
            query_starts=torch.from_numpy(query_starts),
            context_lengths=torch.from_numpy(context_lengths),
            block_tables=torch.from_numpy(_block_tables(rows, -(-context_lengths // block_size))),
            wanted=None if len(sampled) == total else torch.tensor(sampled + scored, dtype=torch.int64),
            num_sampled=len(sampled),
        )


def _block_tables(rows: tuple[Row, ...], num_blocks: NDArray[np.int32]) -> NDArray[np.int32]:
    tables = np.zeros((len(rows), int(num_blocks.max())), np.int32)
    for table, row, count in zip(tables, rows, num_blocks.tolist(), strict=True):
        table[:count] = row.block_table[:count]
    return tables


def _wanted_indices(rows: tuple[Row, ...], query_starts: NDArray[np.int32]) -> tuple[list[int], list[int]]:
    """The tokens whose successors are sampled, and those whose successors are scored."""
    sampled: list[int] = []
    scored: list[int] = []
    bounds = query_starts.tolist()
    for row, start, end in zip(rows, bounds, bounds[1:], strict=False):
        sampled += range(end - row.sampled_rows, end)
        if row.scoring is not None:
            first = start + row.scoring.offset
            scored += range(first, first + len(row.scoring.successors))
    return sampled, scored
