"""Text to tokens and back, from a model's `tokenizer.json`.

Encoding goes through `encode_batch_fast`, which releases the GIL (`encode` does not: a long text would stall
every thread). Text from outside yields no control tokens: special tokens in it are read as plain text, and
only what the chat template itself wrote becomes control ids. Callers bound the length of a text before they
encode it.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as _Tokenizer

from headrace_engine.runner.chat_template import ChatTemplate, ChatTemplateError, TemplateSource
from headrace_engine.runner.detokenizer import (
    ByteLevelDecoder,
    IncrementalDecoder,
    WindowDecoder,
    byte_token_ids,
    piece_bytes,
    token_bytes,
    without,
)
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.model_directory import MAX_JSON_BYTES, as_directory, file_in
from headrace_engine.runner.shield import Shield

log = logging.getLogger(__name__)

_PANIC = "PanicException"
"""Of the library, which exports no such name."""


class Tokenizer:
    """A model's tokenizer. Safe to use from several threads."""

    def __init__(self, plain: _Tokenizer, controlled: _Tokenizer, template: ChatTemplate | None) -> None:
        """`plain` reads special tokens in a text as text, `controlled` as control tokens."""
        self._plain = plain
        self._controlled = controlled
        self._template = template
        added = controlled.get_added_tokens_decoder()
        self._control = {token.content: index for index, token in added.items() if token.special}
        self._control_ids = frozenset(self._control.values())
        self._bytes_of = token_bytes(controlled)
        self._text_bytes_of = self._bytes_of and without(self._bytes_of, self._control_ids)
        self._byte_tokens = byte_token_ids(controlled) if self._bytes_of is None else frozenset()

    @classmethod
    def load(cls, directory: Path, *, chat_template: Path | None = None) -> "Tokenizer":
        """Reads `tokenizer.json` of a directory (or of a converted GGUF file), and the chat template where
        there is one; the file `chat_template` goes before the model's own.

        Raises:
            ModelLoadError: missing or malformed; the file is named.
        """
        directory = as_directory(directory)
        path = file_in(directory, "tokenizer.json")
        if path.stat().st_size > MAX_JSON_BYTES:
            raise ModelLoadError(f"{path} is larger than {MAX_JSON_BYTES} bytes; no tokenizer needs that")
        try:
            plain, controlled = _Tokenizer.from_file(str(path)), _Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises no narrower one
            raise ModelLoadError(
                f"{path} is no tokenizer that can be read ({error}); download it again"
            ) from error
        plain.encode_special_tokens = True
        for tokenizer in (plain, controlled):
            tokenizer.no_truncation()
            tokenizer.no_padding()
        source = TemplateSource.read(directory, chat_template)
        if source is None:
            log.warning(
                "%s has no chat template: chat is refused. Start with --chat-template FILE, add "
                "chat_template.jinja, or use /v1/completions",
                directory,
            )
        return cls(plain, controlled, ChatTemplate(source) if source else None)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text from outside, with what the model expects around every text (a beginning
        token, say) unless that is unwanted.
        """
        return self._ids(self._plain, text, add_special_tokens=add_special_tokens)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of ids, control tokens left out or spelled, invalid UTF-8 as U+FFFD.

        Raises:
            ValueError: the model's decoder fails on them.
        """
        try:
            return self._controlled.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
        except BaseException as error:
            if type(error).__name__ != _PANIC:
                raise
            # No `Exception`: it would end the task of whoever reads, without a word to the client.
            raise ValueError("the model's decoder fails on these tokens") from None

    def decoder(self, *, skip_special_tokens: bool = True) -> IncrementalDecoder:
        """A decoder for one stream."""
        bytes_of = self._text_bytes_of if skip_special_tokens else self._bytes_of
        if bytes_of is not None:
            return ByteLevelDecoder(bytes_of)
        skipped = self._control_ids if skip_special_tokens else frozenset()
        return WindowDecoder(
            partial(self.decode, skip_special_tokens=skip_special_tokens), skipped, self._byte_tokens
        )

    def token_string(self, token_id: int) -> str:
        """A token as its vocabulary has it; empty for an id that it lacks."""
        return self._controlled.id_to_token(token_id) or ""

    def token_bytes(self, token_id: int) -> bytes:
        """What a token stands for; a control token for its own name, an id that the vocabulary lacks for
        nothing.
        """
        if self._bytes_of is None:
            return piece_bytes(self.token_string(token_id))
        return self._bytes_of[token_id] if token_id < len(self._bytes_of) else b""

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> list[int]:
        """The ids of a conversation, as the model was taught to read one; with `continue_final_message` they
        end with the last message's text, and nothing after it. `variables` are the template's own.

        Raises:
            ChatTemplateError: the template refuses these messages, or the model has none.
        """
        if self._template is None:
            raise ChatTemplateError(
                "this model has no chat template: use /v1/completions, or start with --chat-template FILE"
            )
        shield = Shield(self._control)
        covered = shield.cover([_with_text_content(message) for message in messages])
        if continue_final_message:
            covered[-1]["content"] += shield.end_mark
        rendered = self._template.render(
            covered, add_generation_prompt=add_generation_prompt, **shield.cover(variables)
        )
        if continue_final_message:
            rendered = _ended(rendered, shield.end_mark)
        if not shield.is_used:
            return self._ids(self._controlled, rendered, add_special_tokens=False)
        ids: list[int] = []
        for piece, is_control in shield.split(rendered):
            ids += (
                [self._control[piece]]
                if is_control
                else self._ids(self._plain, piece, add_special_tokens=False)
            )
        return ids

    @staticmethod
    def _ids(tokenizer: _Tokenizer, text: str, *, add_special_tokens: bool) -> list[int]:
        return tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0].ids


def _with_text_content(message: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's list of text parts as one text, which is what templates take."""
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content)
    return {**message, "content": content}


def _ended(rendered: str, mark: str) -> str:
    """What stands before the mark. It ends with a space: a template that trims what it is given trims that,
    and would have trimmed the message.
    """
    before, found, after = rendered.rpartition(mark.rstrip())
    if not found:
        raise ChatTemplateError("the model's chat template does not end with the last message")
    return before if after.startswith(" ") else before.rstrip()
