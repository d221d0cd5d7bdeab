"""The data plane: one engine, from a request on the wire to its tokens.

`core` decides, `runner` computes, `server` talks, `telemetry` tells. In a program, without a server:

    from headrace_engine import LLM, SamplingParams

    with LLM("smollm2-135m-instruct") as llm:
        [answer] = llm.generate(["The capital of France is"], SamplingParams(temperature=0, max_tokens=8))
        print(answer.outputs[0].text)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace_engine.offline import LLM, CompletionOutput, RequestOutput, SamplingParams

__all__ = ["LLM", "CompletionOutput", "RequestOutput", "SamplingParams"]


def __getattr__(name: str) -> Any:
    """The core is imported where there is no server and no torch: what needs them comes when asked for."""
    if name in __all__:
        return getattr(import_module("headrace_engine.offline"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
