"""Specs as parsed last: a spec changes with its generation only, and is read many times a second."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from headrace_operator.api.parsing import parse
from headrace_operator.api.spec import Invalid, ServiceSpec

REMEMBERED = 10_000


class Specs:
    def __init__(self) -> None:
        self._parsed: OrderedDict[str, tuple[int, ServiceSpec | Invalid]] = OrderedDict()

    def of(self, service: Mapping[str, Any]) -> ServiceSpec | Invalid:
        uid, generation = service["metadata"]["uid"], service["metadata"]["generation"]
        known = self._parsed.get(uid)
        if known is None or known[0] != generation:
            known = self._parsed[uid] = (generation, parse(service))
        self._parsed.move_to_end(uid)
        while len(self._parsed) > REMEMBERED:
            self._parsed.popitem(last=False)
        return known[1]
