"""What `/tokenize` and `/detokenize` take."""

from typing import Annotated

from pydantic import Field

from headrace_engine.server.parameters import Conversation, Strict, TokenId

MAX_TOKENS = 1 << 20
"""A body has room for fewer, unless the context is very long."""
ModelName = Annotated[str, Field(min_length=1, max_length=256)]


class TokenizeText(Strict):
    model: ModelName | None = None
    prompt: str
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class TokenizeChat(Conversation):
    model: ModelName | None = None
    return_token_strs: bool | None = None


class Detokenize(Strict):
    model: ModelName | None = None
    tokens: Annotated[list[TokenId], Field(max_length=MAX_TOKENS, fail_fast=True)]
