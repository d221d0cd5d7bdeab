"""Parameters of OpenAI's and vLLM's APIs that this server does not act on.

Each is accepted with the values that ask for nothing (clients send their defaults) and refused with any
other, by name: a parameter is honored or refused, never ignored.
"""

import json
from collections.abc import Mapping
from typing import Any

from headrace_engine.server.errors import invalid

_COMMON: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "min_p": (0,),
    "echo": (False,),
    "use_beam_search": (False,),
    "prompt_logprobs": (),
    "allowed_token_ids": (),
    "bad_words": ([],),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
    "truncate_prompt_tokens": (),
    "return_tokens_as_token_ids": (False,),
    "return_token_ids": (False,),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "response_format": ({"type": "text"},),
    "cache_salt": (),
    "kv_transfer_params": (),
    "vllm_xargs": (),
    "logits_processors": (),
    "metadata": ({},),
}

CHAT: Mapping[str, tuple[Any, ...]] = _COMMON | {
    "logprobs": (False,),
    "top_logprobs": (0,),
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
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "add_special_tokens": (False,),
    "documents": ([],),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "mm_processor_kwargs": (),
}
COMPLETION: Mapping[str, tuple[Any, ...]] = _COMMON | {
    "logprobs": (),
    "suffix": ("",),
    "add_special_tokens": (True,),
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
