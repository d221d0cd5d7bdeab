"""The last so many of an endless row of records, each at a position that never changes."""

from collections import deque
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record")


class Page(NamedTuple, Generic[Record]):
    """A piece of a ring, in order."""

    records: list[Record]
    lost: int
    """Records between the asked position and the first of these, gone for good."""
    end: int
    """The position after the last of these: where the next page begins."""


class Ring(Generic[Record]):
    """Keeps `size` records. Appending costs the same however many are kept."""

    def __init__(self, size: int) -> None:
        self._kept: deque[Record] = deque(maxlen=size)
        self.end = 0
        """The position of the next record: how many there ever were."""

    def append(self, record: Record) -> None:
        self._kept.append(record)
        self.end += 1

    def since(self, position: int, limit: int) -> Page[Record]:
        """At most `limit` records from `position` on, oldest first; from the oldest kept if that is gone."""
        oldest = self.end - len(self._kept)
        first = max(position, oldest)
        records = list(islice(self._kept, first - oldest, first - oldest + limit))
        return Page(records, first - position, first + len(records))
