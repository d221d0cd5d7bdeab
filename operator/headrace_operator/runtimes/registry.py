"""Which adapter runs which runtime."""

from headrace_operator.api.spec import Runtime
from headrace_operator.runtimes.base import EngineAdapter
from headrace_operator.runtimes.headrace import HeadraceEngine
from headrace_operator.runtimes.vllm import VllmEngine

_ADAPTERS: dict[Runtime, EngineAdapter] = {Runtime.HEADRACE: HeadraceEngine(), Runtime.VLLM: VllmEngine()}


def adapter(runtime: Runtime) -> EngineAdapter:
    """The adapter of a runtime."""
    return _ADAPTERS[runtime]
