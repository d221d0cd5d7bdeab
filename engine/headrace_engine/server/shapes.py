"""Shapes that a schema describes badly: prompts, stop strings. A fault is named as a client would name it."""

from typing import Any

from headrace_engine.server.errors import invalid

MAX_PROMPTS = 64
MAX_STOP_STRINGS = 4
MAX_STOP_BYTES = 256
INT32 = 2**31 - 1


def check_stop(stop: Any) -> None:
    strings = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise invalid("stop", "stop takes a string or a list of strings.")
    if len(strings) > MAX_STOP_STRINGS:
        raise invalid("stop", f"stop takes at most {MAX_STOP_STRINGS} strings.")
    if not all(0 < len(string.encode()) <= MAX_STOP_BYTES for string in strings):
        raise invalid("stop", f"A stop string has 1 to {MAX_STOP_BYTES} bytes.")


def check_prompt(prompt: Any) -> None:
    kinds = {type(item) for item in prompt} if isinstance(prompt, list) else {type(prompt)}
    if not (isinstance(prompt, list) and kinds in ({str}, {list}, {int})) and kinds != {str}:
        raise invalid("prompt", "prompt takes a string, a list of token ids, or a list of either.")
    if kinds == {int}:
        _check_ids(prompt, "prompt")
        return
    many = prompt if isinstance(prompt, list) else [prompt]
    if len(many) > MAX_PROMPTS:
        raise invalid("prompt", f"prompt takes at most {MAX_PROMPTS} prompts.")
    for index, item in enumerate(many):
        param = f"prompt[{index}]" if isinstance(prompt, list) else "prompt"
        if not item:
            raise invalid(param, "A prompt must not be empty.")
        if isinstance(item, list):
            _check_ids(item, param)


def _check_ids(ids: list[Any], param: str) -> None:
    if not all(type(token_id) is int and 0 <= token_id <= INT32 for token_id in ids):
        raise invalid(param, "A prompt of token ids takes whole numbers from 0 on.")
