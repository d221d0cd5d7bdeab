"""How much of the cluster is seen: what was listed when, and what the API server does not let us see.

A scope is a namespace that is watched, or None for the whole cluster. What is refused in one scope blinds its
services alone. Times are monotonic seconds.
"""

from collections.abc import Sequence

from headrace_operator.kube.errors import KubeError
from headrace_operator.kube.kinds import OPTIONAL, Kind

Scope = str | None


class Coverage:
    def __init__(self, kinds: Sequence[Kind], namespaces: Sequence[str]) -> None:
        """`namespaces` empty means the whole cluster."""
        self.kinds = tuple(kinds)
        self.scopes: tuple[Scope, ...] = tuple(namespaces) or (None,)
        self._listed_at_s: dict[tuple[Kind, Scope], float] = {}
        self._unlisted: dict[tuple[Kind, Scope], KubeError] = {}
        self._unwatched: dict[tuple[Kind, Scope], KubeError] = {}

    def listed(self, kind: Kind, scope: Scope, now_s: float) -> None:
        self._listed_at_s[kind, scope] = now_s
        self._unlisted.pop((kind, scope), None)

    def refuse_list(self, kind: Kind, scope: Scope, error: KubeError) -> None:
        self._unlisted[kind, scope] = error

    def watched(self, kind: Kind, scope: Scope, refused: KubeError | None) -> None:
        """Whether a watch may be had; its refusal, where it may not."""
        if refused is None:
            self._unwatched.pop((kind, scope), None)
        else:
            self._unwatched[kind, scope] = refused

    @property
    def is_settled(self) -> bool:
        """True once each LIST was answered, with objects or with a refusal: from then on, absent means
        absent wherever nothing is refused.
        """
        return all(
            (kind, scope) in self._listed_at_s or (kind, scope) in self._unlisted
            for kind in self.kinds
            for scope in self.scopes
        )

    def blind_in(self, namespace: str) -> KubeError | None:
        """Why the services of a namespace cannot be decided about: a kind may not be listed there."""
        return self._found(self._unlisted, self._scope_of(namespace))

    def deaf_in(self, namespace: str) -> KubeError | None:
        """Why changes in a namespace are noticed by the next LIST only: a kind may not be watched there."""
        return self._found(self._unwatched, self._scope_of(namespace))

    def unseen_in(self, kind: Kind, namespace: str) -> KubeError | None:
        """Why one kind may not be listed in a namespace."""
        return self._unlisted.get((kind, self._scope_of(namespace)))

    def seen_nowhere_because(self) -> KubeError | None:
        """The refusal that leaves not one scope to work in, if there is none."""
        refused = [self._found(self._unlisted, scope) for scope in self.scopes]
        return refused[0] if all(refused) else None

    def age_s(self, now_s: float) -> float | None:
        """Seconds since the LIST that is oldest, of those that are not refused; None before the first."""
        times = [at_s for place, at_s in self._listed_at_s.items() if place not in self._unlisted]
        return now_s - min(times) if times and self.is_settled else None

    def _scope_of(self, namespace: str) -> Scope:
        return None if self.scopes == (None,) else namespace

    def _found(self, refusals: dict[tuple[Kind, Scope], KubeError], scope: Scope) -> KubeError | None:
        needed = (kind for kind in self.kinds if kind not in OPTIONAL)
        return next((refusals[kind, scope] for kind in needed if (kind, scope) in refusals), None)
