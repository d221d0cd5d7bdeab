"""The running requests: those that hold blocks and a slot.

Three lines, so that a step looks at each request once: decodes, with one token to compute and one to sample,
in the order in which their prefills ended; prefills, with more than that, in order of admission unless the
policy lets one precede another; and loads, which compute nothing until their KV was brought.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from headrace_engine.core.request import Request

Precedes = Callable[[Request, Request], bool]


class Running:
    """Who runs."""

    def __init__(self, tenants: Counter[str]) -> None:
        self.decodes: dict[str, Request] = {}
        self.prefills: dict[str, Request] = {}
        self.loads: dict[str, Request] = {}
        self._keys: Counter[str] = Counter()
        self._tenants = tenants
        """How many of each run."""

    def prefill(self, request: Request, precedes: Precedes) -> None:
        """Take a request in; it has tokens to compute before it decodes, after those it does not precede."""
        self._count(request, 1)
        line = list(self.prefills.values())
        place = len(line)
        while place and precedes(request, line[place - 1]):
            place -= 1
        if place == len(line):
            self.prefills[request.request_id] = request
        else:
            line.insert(place, request)
            self.prefills = {each.request_id: each for each in line}

    def load(self, request: Request) -> None:
        """Take a request in that waits for KV from elsewhere."""
        self.loads[request.request_id] = request
        self._count(request, 1)

    def loaded(self, request: Request) -> None:
        """Its load is over: from now on it computes."""
        del self.loads[request.request_id]
        self.prefills[request.request_id] = request

    def prefilled(self, request: Request) -> None:
        """Its known tokens are computed and the next one is sampled: from now on it decodes."""
        del self.prefills[request.request_id]
        self.decodes[request.request_id] = request

    def remove(self, request: Request) -> None:
        """Let a request go, whatever it was doing."""
        for line in (self.decodes, self.prefills, self.loads):
            if line.pop(request.request_id, None) is not None:
                break
        self._count(request, -1)

    def admits_key(self, key: str, max_keys: int) -> bool:
        """Whether one more request with this step key leaves at most `max_keys` of them running (0: any
        number).
        """
        return not (key and max_keys) or key in self._keys or len(self._keys) < max_keys

    def num_of(self, tenant: str) -> int:
        """How many requests of a tenant run."""
        return self._tenants[tenant]

    def __iter__(self) -> Iterator[Request]:
        yield from self.decodes.values()
        yield from self.prefills.values()
        yield from self.loads.values()

    def __len__(self) -> int:
        return len(self.decodes) + len(self.prefills) + len(self.loads)

    def _count(self, request: Request, change: int) -> None:
        _add(self._tenants, request.tenant, change)
        if request.step_key:
            _add(self._keys, request.step_key, change)


def _add(counter: Counter[str], name: str, change: int) -> None:
    counter[name] += change
    if not counter[name]:
        del counter[name]
