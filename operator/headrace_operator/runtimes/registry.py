"""Which adapter runs which runtime."""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import CONTAINER
from headrace_operator.api.spec import Runtime
from headrace_operator.runtimes.base import EngineAdapter
from headrace_operator.runtimes.headrace import HeadraceEngine
from headrace_operator.runtimes.vllm import VllmEngine

_ADAPTERS: dict[Runtime, EngineAdapter] = {Runtime.HEADRACE: HeadraceEngine(), Runtime.VLLM: VllmEngine()}


def runtime_of(pod: Mapping[str, Any]) -> Runtime:
    """Which engine the spec of one of our pods starts: an old one may start another than the new ones do."""
    engines = (found for found in pod.get("containers") or () if found.get("name") == CONTAINER)
    engine = next(engines, None)
    command = () if engine is None else tuple(engine.get("command") or ())
    started = (runtime for runtime, known in _ADAPTERS.items() if known.command == command)
    return next(started, Runtime.HEADRACE)


def adapter(runtime: Runtime) -> EngineAdapter:
    """The adapter of a runtime."""
    return _ADAPTERS[runtime]
