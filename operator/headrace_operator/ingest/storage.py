"""kopf's two memories, empty: what it compares and remembers is for kinds of handlers that we have none of.

By default it copies each object several times an event for that, which is most of what an event costs.
"""

from typing import Any

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """No object was ever handled, and none has anything that could differ."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


class NoProgress(kopf.ProgressStorage):
    """No handler ever began."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: Any) -> Any:
        return essence
