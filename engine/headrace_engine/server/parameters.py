"""The parameters that are honored, with their bounds: strict types, no unknown key, every number in a
closed range.

A bool or a string is no number, and every failure names its parameter. Bounds that depend on the model
(vocabulary, context) are checked where the model is known.
"""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace_engine.server.errors import ApiError, invalid
from headrace_engine.server.neutral import CHAT, COMPLETION, MESSAGE, without_neutral

MAX_MESSAGES = 2048
MAX_PARTS = 64
MAX_PROMPTS = 64
MAX_STOP_STRINGS = 4
MAX_STOP_BYTES = 256
MAX_STOP_IDS = 128

INT32 = 2**31 - 1
TokenCount = Annotated[int, Field(ge=1, le=INT32)]
TokenId = Annotated[int, Field(ge=0, le=INT32)]
Label = Annotated[str, Field(max_length=256)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class StreamOptions(_Strict):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: Literal[False] | None = None


class TextPart(_Strict):
    type: Literal["text"]
    text: str


class Message(_Strict):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[TextPart], Field(min_length=1, max_length=MAX_PARTS, fail_fast=True)]

    @property
    def text(self) -> str:
        return (
            self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)
        )


class GenerationParameters(_Strict):
    """What both routes take."""

    model: Annotated[str, Field(min_length=1, max_length=256)]
    max_tokens: TokenCount | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=INT32)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: Any = Field(default=None, json_schema_extra={"anyOf": [{"type": "string"}, {"type": "array"}]})
    stop_token_ids: Annotated[list[TokenId], Field(max_length=MAX_STOP_IDS)] | None = None
    min_tokens: Annotated[int, Field(ge=0, le=INT32)] | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    priority: Annotated[int, Field(ge=-INT32, le=INT32)] | None = None
    user: Label | None = None
    safety_identifier: Label | None = None
    prompt_cache_key: Label | None = None

    @property
    def stop_strings(self) -> tuple[str, ...]:
        return () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


class ChatParameters(GenerationParameters):
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]
    max_completion_tokens: TokenCount | None = None


class CompletionParameters(GenerationParameters):
    prompt: Any

    @property
    def prompts(self) -> list[str | list[int]]:
        """One entry a choice: `prompt` is a text, ids, or a list of either."""
        is_one = isinstance(self.prompt, str) or isinstance(self.prompt[0], int)
        return [self.prompt] if is_one else self.prompt


class TokenizeParameters(_Strict):
    model: str | None = None
    prompt: str


Parameters = TypeVar("Parameters", bound=BaseModel)


def chat_parameters(body: Mapping[str, Any]) -> ChatParameters:
    """Raises `ApiError` (400, with `param`) for anything that will not be honored."""
    honored = without_neutral(body, CHAT)
    messages = honored.get("messages")
    if isinstance(messages, list) and len(messages) <= MAX_MESSAGES:
        honored["messages"] = [
            without_neutral(message, MESSAGE, f"messages[{index}].") if isinstance(message, dict) else message
            for index, message in enumerate(messages)
        ]
    parameters = validated(ChatParameters, honored)
    if parameters.max_tokens is not None and parameters.max_completion_tokens is not None:
        raise invalid("max_tokens", "max_tokens and max_completion_tokens are one thing. Send one of them.")
    return _checked(parameters)


def completion_parameters(body: Mapping[str, Any]) -> CompletionParameters:
    """Raises `ApiError` (400, with `param`) for anything that will not be honored."""
    parameters = validated(CompletionParameters, without_neutral(body, COMPLETION))
    _check_prompt(parameters.prompt)
    return _checked(parameters)


def validated(model: type[Parameters], body: Mapping[str, Any]) -> Parameters:
    """The body as `model`, or `ApiError` for the first thing that is wrong with it."""
    for name in body.keys() - model.model_fields.keys():
        near = difflib.get_close_matches(name[:64], model.model_fields, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise invalid(name[:64], f"Unknown parameter: {name[:64]!r}.{hint}")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> ApiError:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    of_first = [each for each in errors if each["loc"][:1] == errors[0]["loc"][:1]]
    worst = max(of_first, key=lambda each: len(each["loc"]))
    param = _path(worst["loc"])
    match worst["type"]:
        case "missing":
            return invalid(param, f"Missing required parameter: {param!r}.")
        case "extra_forbidden":
            return invalid(param, f"Unknown parameter: {param!r}.")
        case _:
            return invalid(param, f"{param}: {worst['msg']}.")


def _path(location: tuple[int | str, ...]) -> str:
    """`messages[0].content`, without the names that alternatives of a type add to a location."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier() and part != "str":
            path += f".{part}" if path else part
    return path[:128]


Checked = TypeVar("Checked", bound=GenerationParameters)


def _checked(parameters: Checked) -> Checked:
    _check_stop(parameters.stop)
    if parameters.stream_options is not None and not parameters.stream:
        raise invalid("stream_options", "stream_options are for streams: send them with stream true.")
    options = parameters.stream_options
    if options is not None and options.continuous_usage_stats and not options.include_usage:
        raise invalid("stream_options.continuous_usage_stats", "It takes include_usage true beside it.")
    return parameters


def _check_stop(stop: Any) -> None:
    strings = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise invalid("stop", "stop takes a string or a list of strings.")
    if len(strings) > MAX_STOP_STRINGS:
        raise invalid("stop", f"stop takes at most {MAX_STOP_STRINGS} strings.")
    if not all(0 < len(string.encode()) <= MAX_STOP_BYTES for string in strings):
        raise invalid("stop", f"A stop string has 1 to {MAX_STOP_BYTES} bytes.")


def _check_prompt(prompt: Any) -> None:
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
