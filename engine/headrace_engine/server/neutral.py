"""Parameters of OpenAI's and vLLM's APIs that this server does not act on.

Each is accepted with the values that ask for nothing (clients send their defaults) and refused with any
other, by name: a parameter is honored or refused, never ignored.
"""

import json
from collections.abc import Mapping
from typing import Any

from headrace_engine.server.errors import invalid

_COMMON: dict[str, tuple[Any, ...]] = {
    "length_penalty": (1,),
    "use_beam_search": (False,),
    "spaces_between_special_tokens": (True, False),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "response_format": ({"type": "text"},),
    "kv_transfer_params": (),
    "vllm_xargs": (),
    "logits_processors": (),
    "metadata": ({},),
}

CHAT: Mapping[str, tuple[Any, ...]] = _COMMON | {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "add_special_tokens": (False,),
    "best_of": (1,),
    "echo": (False,),
    "documents": ([],),
    "chat_template": (),
    "mm_processor_kwargs": (),
}
COMPLETION: Mapping[str, tuple[Any, ...]] = _COMMON | {
    "suffix": ("",),
}
MESSAGE: Mapping[str, tuple[Any, ...]] = {
    "name": (),
    "refusal": (),
    "audio": (),
    "annotations": ([],),
    "tool_calls": ([],),
    "function_call": (),
    "reasoning": (),
    "reasoning_content": (),
}


def without_neutral(
    body: Mapping[str, Any], neutral: Mapping[str, tuple[Any, ...]], where: str = ""
) -> dict[str, Any]:
    """What is left of `body` to be honored. Null is neutral everywhere.

    Raises:
        ApiError: a parameter of the table has a value that asks for something.
    """
    for name in body.keys() & neutral.keys():
        value, allowed = body[name], neutral[name]
        if value is not None and not any(_same(value, accepted) for accepted in allowed):
            takes = " or ".join(json.dumps(accepted) for accepted in (*allowed, None))
            raise invalid(where + name, f"{where}{name} is not supported by this server. It takes {takes}.")
    return {name: value for name, value in body.items() if name not in neutral}


def _same(value: Any, accepted: Any) -> bool:
    return isinstance(value, bool) is isinstance(accepted, bool) and bool(value == accepted)
