"""Which adapter runs which runtime."""

from headrace_operator.api.spec import Runtime
from headrace_operator.runtimes.base import EngineAdapter
from headrace_operator.runtimes.headrace import HeadraceEngine

_ADAPTERS: dict[Runtime, EngineAdapter] = {Runtime.HEADRACE: HeadraceEngine()}


def adapter(runtime: Runtime) -> EngineAdapter:
    """The adapter of a runtime that `parse` accepts."""
    return _ADAPTERS[runtime]
