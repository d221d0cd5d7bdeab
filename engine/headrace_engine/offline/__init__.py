"""The engine as a library: the step loop and the scheduler of the server, without HTTP."""

from headrace_engine.offline.answer import CompletionOutput, Logprob, RequestOutput
from headrace_engine.offline.llm import LLM, EngineFailed, RequestRefused
from headrace_engine.offline.sampling_params import SamplingParams

__all__ = [
    "LLM",
    "CompletionOutput",
    "EngineFailed",
    "Logprob",
    "RequestOutput",
    "RequestRefused",
    "SamplingParams",
]
