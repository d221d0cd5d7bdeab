"""From a request's text to token ids, off the event loop and never past the context.

A text longer than any that could fit is refused before it is tokenized, and one of many more tokens than fit
while they are counted, piece by piece: tokenized whole, it would take seconds and hundreds of MiB.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from headrace_engine.runner.chat_template import ChatTemplateError
from headrace_engine.server.errors import invalid, too_long
from headrace_engine.server.output import Decoder
from headrace_engine.server.parameters import ChatParameters, CompletionParameters

MOST_CHARACTERS_A_TOKEN = 32
"""Of a short context, which one line of dashes may fill."""
MOST_CHARACTERS_A_TOKEN_OF_MANY = 8
SHORT_CHARACTERS = 262_144
MOST_CONTEXTS_OF_TOKENS = 2
PIECE_CHARACTERS = 32_768
NUM_TOKENIZER_THREADS = 2


class Tokenizer(Protocol):
    """Safe to use from several threads. Encoding releases the GIL."""

    def encode(self, text: str) -> list[int]: ...
    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]]) -> list[int]: ...
    def decoder(self) -> Decoder: ...


class Prompts:
    """Encodes prompts for one model."""

    def __init__(self, tokenizer: Tokenizer, *, max_model_len: int, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._vocab_size = vocab_size
        self._threads = ThreadPoolExecutor(NUM_TOKENIZER_THREADS, thread_name_prefix="tokenize")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def chat(self, parameters: ChatParameters) -> tuple[int, ...]:
        """The conversation by the model's template. Message text never becomes control ids."""
        messages = [{"role": message.role, "content": message.text} for message in parameters.messages]
        texts = [message["content"] for message in messages]
        self._check_length("messages", texts)
        try:
            ids = await self._off_loop(
                "messages", texts, lambda: self._tokenizer.apply_chat_template(messages)
            )
        except ChatTemplateError as error:
            raise invalid("messages", str(error)) from None
        return self.fitting("messages", ids)

    async def completion(self, parameters: CompletionParameters) -> list[tuple[int, ...]]:
        return [await self._prompt(prompt) for prompt in parameters.prompts]

    async def text(self, text: str) -> list[int]:
        self._check_length("prompt", [text])
        return await self._off_loop("prompt", [text], lambda: self._tokenizer.encode(text))

    async def _prompt(self, prompt: str | list[int]) -> tuple[int, ...]:
        if isinstance(prompt, str):
            return self.fitting("prompt", await self.text(prompt))
        self.check_ids("prompt", prompt)
        return self.fitting("prompt", prompt)

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

    def fitting(self, param: str, ids: Sequence[int]) -> tuple[int, ...]:
        """Raises `ApiError` for a prompt of no tokens, or of so many that none is left for an answer."""
        if not ids:
            raise invalid(param, f"{param}: no token is left of this text.")
        if len(ids) >= self._max_model_len:
            raise too_long(
                param,
                f"This model's maximum context length is {self._max_model_len} tokens, and {param} has "
                f"{len(ids)}, which leaves no room for an answer. Shorten it.",
            )
        return tuple(ids)

    def _check_tokens(self, param: str, texts: Sequence[str]) -> None:
        """Of texts that are long enough for it to matter, in pieces that are short enough for it not to."""
        if sum(map(len, texts)) <= 2 * PIECE_CHARACTERS:
            return
        num_tokens, most = 0, MOST_CONTEXTS_OF_TOKENS * self._max_model_len
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

        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
