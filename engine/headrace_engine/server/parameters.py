"""The parameters that are honored, with their bounds: strict types, no unknown key, every number in a
closed range.

A bool or a string is no number, and every failure names its parameter. Bounds that depend on the model
(vocabulary, context, sequences) are checked where the model is known, in `bounds`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headrace_engine.server.errors import invalid
from headrace_engine.server.neutral import CHAT, COMPLETION, MESSAGE, without_neutral
from headrace_engine.server.shapes import INT32, check_prompt, check_stop
from headrace_engine.server.validation import validated

MAX_MESSAGES = 2048
MAX_PARTS = 64
MAX_STOP_IDS = 128
MAX_CHOICES = 8
MAX_LOGPROBS = 20
MAX_BIASES = 1024
MAX_ALLOWED_IDS = 1024
MAX_BAD_WORDS = 32
MAX_TEMPLATE_VARIABLES = 16
MAX_TEMPLATE_BYTES = 1024
RESERVED_VARIABLES = frozenset(
    ("messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template")
) | {"bos_token", "eos_token", "unk_token", "pad_token", "tokenize"}


def _at_most(count: int) -> BeforeValidator:
    """Looked at before the entries are, of which there may be many."""

    def check(value: Any) -> Any:
        if isinstance(value, dict) and len(value) > count:
            raise ValueError(f"it has {len(value)} entries, and at most {count} are taken")
        return value

    return BeforeValidator(check)


TokenCount = Annotated[int, Field(ge=1, le=INT32)]
TokenId = Annotated[int, Field(ge=0, le=INT32)]
Label = Annotated[str, Field(max_length=256)]
Choices = Annotated[int, Field(ge=1, le=MAX_CHOICES)]
NumLogprobs = Annotated[int, Field(ge=0, le=MAX_LOGPROBS)]
Penalty = Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
BiasedId = Annotated[str, Field(pattern=r"^[0-9]{1,10}$")]
Bias = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]
BadWord = Annotated[str, Field(min_length=1, max_length=128)]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
Variable = str | bool | Annotated[int, Field(ge=-INT32, le=INT32)] | Annotated[float, Field(ge=-1e9, le=1e9)]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class StreamOptions(Strict):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: Literal[False] | None = None


class TextPart(Strict):
    type: Literal["text"]
    text: str


class Message(Strict):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[TextPart], Field(min_length=1, max_length=MAX_PARTS, fail_fast=True)]

    @property
    def text(self) -> str:
        return (
            self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)
        )


class Conversation(Strict):
    """What the chat template makes a prompt of."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: (
        Annotated[dict[VariableName, Variable | None], _at_most(MAX_TEMPLATE_VARIABLES)] | None
    ) = None

    @property
    def template_variables(self) -> dict[str, Any]:
        """What the template is told beside the messages."""
        variables: dict[str, Any] = dict(self.chat_template_kwargs or {})
        if self.continue_final_message:
            variables |= {"continue_final_message": True, "add_generation_prompt": False}
        elif self.add_generation_prompt is False:
            variables["add_generation_prompt"] = False
        return variables


class GenerationParameters(Strict):
    """What both routes take."""

    model: Annotated[str, Field(min_length=1, max_length=256)]
    n: Choices | None = None
    max_tokens: TokenCount | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=INT32)] | None = None
    min_p: Share | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=10, allow_inf_nan=False)] | None = None
    logit_bias: Annotated[dict[BiasedId, Bias], _at_most(MAX_BIASES)] | None = None
    bad_words: Annotated[list[BadWord], Field(max_length=MAX_BAD_WORDS, fail_fast=True)] | None = None
    allowed_token_ids: (
        Annotated[list[TokenId], Field(min_length=1, max_length=MAX_ALLOWED_IDS, fail_fast=True)] | None
    ) = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: Any = Field(default=None, json_schema_extra={"anyOf": [{"type": "string"}, {"type": "array"}]})
    stop_token_ids: Annotated[list[TokenId], Field(max_length=MAX_STOP_IDS, fail_fast=True)] | None = None
    include_stop_str_in_output: bool | None = None
    min_tokens: Annotated[int, Field(ge=0, le=INT32)] | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    truncate_prompt_tokens: Annotated[int, Field(ge=-1, le=INT32)] | None = None
    prompt_logprobs: NumLogprobs | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    priority: Annotated[int, Field(ge=-INT32, le=INT32)] | None = None
    cache_salt: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    user: Label | None = None
    safety_identifier: Label | None = None
    prompt_cache_key: Label | None = None

    @property
    def stop_strings(self) -> tuple[str, ...]:
        return () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def asked_tokens(self) -> tuple[str, int | None]:
        """The parameter that says how many tokens to generate, and how many."""
        return "max_tokens", self.max_tokens

    @property
    def num_choices(self) -> int:
        """Of each prompt."""
        return self.n or 1

    @property
    def num_candidates(self) -> int:
        """How many outputs are generated for each prompt, of which the choices are the best."""
        return self.num_choices

    @property
    @abstractmethod
    def num_logprobs(self) -> int | None:
        """How many of the likeliest tokens to tell beside each output token; None: tell nothing of them."""

    @property
    def echoes(self) -> bool:
        """Whether a choice begins with its prompt."""
        return False


class ChatParameters(GenerationParameters, Conversation):
    max_completion_tokens: TokenCount | None = None
    logprobs: bool | None = None
    top_logprobs: NumLogprobs | None = None

    @property
    def asked_tokens(self) -> tuple[str, int | None]:
        if self.max_completion_tokens is not None:
            return "max_completion_tokens", self.max_completion_tokens
        return super().asked_tokens

    @property
    def num_logprobs(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionParameters(GenerationParameters):
    prompt: Any
    max_tokens: Annotated[int, Field(ge=0, le=INT32)] | None = None
    """0 with `echo` or `prompt_logprobs`, which are about the prompt alone."""
    best_of: Choices | None = None
    echo: bool | None = None
    logprobs: NumLogprobs | None = None
    add_special_tokens: bool | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """One entry a choice: `prompt` is a text, ids, or a list of either."""
        is_one = isinstance(self.prompt, str) or isinstance(self.prompt[0], int)
        return [self.prompt] if is_one else self.prompt

    @property
    def num_candidates(self) -> int:
        return self.best_of or self.num_choices

    @property
    def num_logprobs(self) -> int | None:
        return self.logprobs

    @property
    def echoes(self) -> bool:
        return bool(self.echo)


def chat_parameters(body: Mapping[str, Any]) -> ChatParameters:
    """Raises `ApiError` (400, with `param`) for anything that will not be honored."""
    parameters = validated(ChatParameters, with_plain_messages(without_neutral(body, CHAT)))
    if parameters.max_tokens is not None and parameters.max_completion_tokens is not None:
        raise invalid("max_tokens", "max_tokens and max_completion_tokens are one thing. Send one of them.")
    if parameters.top_logprobs and not parameters.logprobs:
        raise invalid("top_logprobs", "top_logprobs takes logprobs true beside it.")
    check_conversation(parameters)
    return _checked(parameters)


def completion_parameters(body: Mapping[str, Any]) -> CompletionParameters:
    """Raises `ApiError` (400, with `param`) for anything that will not be honored."""
    parameters = validated(CompletionParameters, without_neutral(body, COMPLETION))
    check_prompt(parameters.prompt)
    if parameters.num_candidates < parameters.num_choices:
        raise invalid("best_of", f"best_of is {parameters.best_of}, less than n.")
    if parameters.num_candidates > parameters.num_choices and parameters.stream:
        raise invalid("best_of", "Which outputs are the best is known when all have ended: not in a stream.")
    if parameters.max_tokens == 0 and not (parameters.echo or parameters.prompt_logprobs is not None):
        raise invalid("max_tokens", "max_tokens 0 asks for the prompt alone: send echo or prompt_logprobs.")
    return _checked(parameters)


def with_plain_messages(body: dict[str, Any]) -> dict[str, Any]:
    """The body without what its messages have and ask for nothing. Raises `ApiError`."""
    messages = body.get("messages")
    if isinstance(messages, list) and len(messages) <= MAX_MESSAGES:
        body["messages"] = [
            without_neutral(message, MESSAGE, f"messages[{index}].") if isinstance(message, dict) else message
            for index, message in enumerate(messages)
        ]
    return body


def check_conversation(conversation: Conversation) -> None:
    """Raises `ApiError` for what does not go together."""
    if conversation.continue_final_message and conversation.add_generation_prompt:
        raise invalid("continue_final_message", "It takes add_generation_prompt false, or left out.")
    variables = conversation.chat_template_kwargs or {}
    for name in variables.keys() & RESERVED_VARIABLES:
        raise invalid("chat_template_kwargs", f"chat_template_kwargs: {name} is set by other means.")
    if sum(len(f"{name}{value}".encode()) for name, value in variables.items()) > MAX_TEMPLATE_BYTES:
        raise invalid("chat_template_kwargs", f"chat_template_kwargs has at most {MAX_TEMPLATE_BYTES} bytes.")


Checked = TypeVar("Checked", bound=GenerationParameters)


def _checked(parameters: Checked) -> Checked:
    check_stop(parameters.stop)
    if parameters.stream_options is not None and not parameters.stream:
        raise invalid("stream_options", "stream_options are for streams: send them with stream true.")
    options = parameters.stream_options
    if options is not None and options.continuous_usage_stats and not options.include_usage:
        raise invalid("stream_options.continuous_usage_stats", "It takes include_usage true beside it.")
    if parameters.prompt_logprobs is not None and parameters.stream:
        raise invalid("prompt_logprobs", "prompt_logprobs come with whole answers: send stream false.")
    if parameters.truncate_prompt_tokens == 0:
        raise invalid("truncate_prompt_tokens", "It takes how many of the last tokens are kept, or -1.")
    return parameters
