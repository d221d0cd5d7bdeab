"""From a request's text to token ids, off the event loop and never past the context.

A text longer than any that could fit is refused before it is tokenized, and one of many more tokens than fit
while they are counted, piece by piece: tokenized whole, it would take seconds and hundreds of MiB.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from headrace_engine.runner.chat_template import ChatTemplateError
from headrace_engine.server.bad_words import bad_word_ids
from headrace_engine.server.encoders import Encoders, EncodingError
from headrace_engine.server.errors import invalid, too_long
from headrace_engine.server.output import Decoder
from headrace_engine.server.parameters import (
    ChatParameters,
    CompletionParameters,
    Conversation,
    GenerationParameters,
)

MOST_CHARACTERS_A_TOKEN = 32
"""Of a short context, which one line of dashes may fill."""
MOST_CHARACTERS_A_TOKEN_OF_MANY = 8
SHORT_CHARACTERS = 262_144
MOST_CONTEXTS_OF_TOKENS = 2
LONG_CONTEXT_TOKENS = 131_072
"""From here on a text may have but a sixteenth more tokens than fit: while it is encoded each takes up to 400
bytes, so a context of this length stays below 64 MiB.
"""
PIECE_CHARACTERS = 32_768
MOST_TOKENS_TOGETHER = 524_288
"""Of all prompts of one request; each takes 36 bytes."""
NUM_TOKENIZER_THREADS = 2
MOST_CPU_S = 5.0
MOST_CPU_S_A_CHARACTER = 50e-6
"""Of processor time, before a text is given up: twenty times what any tokenizer here needs."""
T = TypeVar("T")


def most_tokens_read(max_model_len: int) -> int:
    """More of a text are not encoded, even if most of them would be cut off."""
    several = min(MOST_CONTEXTS_OF_TOKENS * max_model_len, LONG_CONTEXT_TOKENS)
    return max(several, max_model_len + max_model_len // 16)


class Tokenizer(Protocol):
    """Safe to use from several threads. Encoding releases the GIL."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]: ...
    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str: ...
    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> list[int]: ...
    def decoder(self, *, skip_special_tokens: bool = True) -> Decoder: ...
    def token_string(self, token_id: int) -> str: ...
    def token_bytes(self, token_id: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is to be continued."""

    token_ids: tuple[int, ...]
    text: str | None = None
    """As the client wrote it; None where it sent ids, a conversation, or more than was kept."""


class Prompts:
    """Encodes prompts for one model."""

    def __init__(self, tokenizer: Tokenizer, *, max_model_len: int, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._vocab_size = vocab_size
        self._encoders = Encoders(NUM_TOKENIZER_THREADS)

    def close(self) -> None:
        self._encoders.close()

    @property
    def is_stuck(self) -> bool:
        """So many texts never come to an end that the process had better start anew."""
        return self._encoders.is_stuck

    async def chat(self, parameters: ChatParameters) -> Prompt:
        """The conversation by the model's template. Message text never becomes control ids."""
        return self.kept("messages", Prompt(tuple(await self.conversation(parameters))), parameters)

    async def conversation(self, conversation: Conversation) -> list[int]:
        """The ids of a conversation, however many."""
        messages = [{"role": message.role, "content": message.text} for message in conversation.messages]
        texts = [message["content"] for message in messages]
        self._check_length("messages", texts)
        variables = conversation.template_variables

        def encode() -> list[int]:
            return self._tokenizer.apply_chat_template(messages, **variables)

        try:
            return await self._off_loop("messages", texts, encode)
        except ChatTemplateError as error:
            raise invalid("messages", str(error)) from None

    async def completion(self, parameters: CompletionParameters) -> list[Prompt]:
        for prompt in parameters.prompts:
            if isinstance(prompt, str):  # all of them first: encoding has to wait for its turn
                self._check_length("prompt", [prompt])
        prompts: list[Prompt] = []
        num_tokens = 0
        for prompt in parameters.prompts:
            prompts.append(await self._prompt(prompt, parameters))
            num_tokens += len(prompts[-1].token_ids)
            if num_tokens > MOST_TOKENS_TOGETHER:
                raise too_long(
                    "prompt", f"All prompts together have more than {MOST_TOKENS_TOGETHER} tokens."
                )
        return prompts

    async def text(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        self._check_length("prompt", [text])

        def encode() -> list[int]:
            return self._tokenizer.encode(text, add_special_tokens=add_special_tokens)

        return await self._off_loop("prompt", [text], encode)

    async def bad_words(self, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """The id sequences that write these words."""
        if not words:
            return ()
        encode = partial(self._tokenizer.encode, add_special_tokens=False)
        spell = partial(bad_word_ids, encode, words)
        return await self._run("bad_words", spell, sum(map(len, words)))

    async def decoded(self, token_ids: Sequence[int]) -> str:
        """The text of ids, control tokens spelled."""
        decode = partial(self._tokenizer.decode, token_ids, skip_special_tokens=False)
        return await self._run("tokens", decode, len(token_ids))

    async def _prompt(self, prompt: str | list[int], parameters: CompletionParameters) -> Prompt:
        if isinstance(prompt, str):
            special = parameters.add_special_tokens is not False
            ids = await self.text(prompt, add_special_tokens=special)
            return self.kept("prompt", Prompt(tuple(ids), prompt), parameters)
        return self.kept("prompt", Prompt(tuple(prompt)), parameters)

    def kept(self, param: str, prompt: Prompt, parameters: GenerationParameters) -> Prompt:
        """What `truncate_prompt_tokens` leaves of a prompt.

        Raises:
            ApiError: that does not fit, or the tokenizer knows a token in it that the model lacks.
        """
        self.check_ids(param, prompt.token_ids)
        _, asked = parameters.asked_tokens
        wanted = 1 if asked is None else asked
        most = parameters.truncate_prompt_tokens
        if most == -1:
            most = max(1, self._max_model_len - wanted)
        if most is not None and len(prompt.token_ids) > most:
            prompt = Prompt(prompt.token_ids[-most:])
        self._check_fits(param, prompt.token_ids, least_room=min(wanted, 1))
        return prompt

    def check_ids(self, param: str, ids: Sequence[int]) -> None:
        """Raises `ApiError` for an id that the model does not have."""
        if ids and max(ids) >= self._vocab_size:
            raise invalid(param, f"{param}: token ids of this model are below {self._vocab_size}.")

    def _check_length(self, param: str, texts: Sequence[str]) -> None:
        num_characters, length = sum(map(len, texts)), self._max_model_len
        most = min(
            MOST_CHARACTERS_A_TOKEN * length, max(SHORT_CHARACTERS, MOST_CHARACTERS_A_TOKEN_OF_MANY * length)
        )
        if num_characters > most:
            raise too_long(
                param, f"{param}: {num_characters} characters cannot fit; at most {most} are read."
            )

    def _check_fits(self, param: str, ids: Sequence[int], *, least_room: int) -> None:
        """Raises `ApiError` for a prompt of no tokens, or of so many that none is left for an answer."""
        if not ids:
            raise invalid(param, f"{param}: no token is left of this text.")
        if len(ids) + least_room > self._max_model_len:
            raise too_long(
                param,
                f"This model's maximum context length is {self._max_model_len} tokens, and {param} has "
                f"{len(ids)}, which leaves no room for an answer. Shorten it.",
            )

    def _check_tokens(self, param: str, texts: Sequence[str]) -> None:
        """Of texts that are long enough for it to matter, in pieces that are short enough for it not to."""
        if sum(map(len, texts)) <= 2 * PIECE_CHARACTERS:
            return
        num_tokens, most = 0, most_tokens_read(self._max_model_len)
        for text in texts:
            for start in range(0, len(text), PIECE_CHARACTERS):
                num_tokens += len(self._tokenizer.encode(text[start : start + PIECE_CHARACTERS]))
                if num_tokens > most:
                    length = f"This model's maximum context length is {self._max_model_len} tokens"
                    raise too_long(param, f"{length}, and {param} has more than {most}. Shorten it.")

    async def _off_loop(self, param: str, texts: Sequence[str], encode: Callable[[], list[int]]) -> list[int]:
        def work() -> list[int]:
            self._check_tokens(param, texts)
            return encode()

        return await self._run(param, work, sum(map(len, texts)))

    async def _run(self, param: str, work: Callable[[], T], num_characters: int) -> T:
        try:
            return await self._encoders.run(work, MOST_CPU_S + MOST_CPU_S_A_CHARACTER * num_characters)
        except EncodingError as error:
            raise invalid(param, f"{param}: this model's tokenizer {error}.") from None
