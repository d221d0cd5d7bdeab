"""What cannot fit is refused for its characters, then for its tokens in pieces, and never encoded whole."""

import pytest

from headrace_engine.server.errors import ApiError
from headrace_engine.server.parameters import chat_parameters, completion_parameters
from headrace_engine.server.prompts import PIECE_CHARACTERS, Prompts

MAX_MODEL_LEN = 50_000


class Counting:
    """A token a character; remembers how long each text was that it encoded."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def encode(self, text: str, **_options: object) -> list[int]:
        self.lengths.append(len(text))
        return [1] * len(text)

    def apply_chat_template(self, messages, **_variables: object) -> list[int]:
        return self.encode("".join(message["content"] for message in messages))


@pytest.fixture
def tokenizer() -> Counting:
    return Counting()


@pytest.fixture
def prompts(tokenizer):
    prompts = Prompts(tokenizer, max_model_len=MAX_MODEL_LEN, vocab_size=10)
    yield prompts
    prompts.close()


def completion(prompt):
    return completion_parameters({"model": "m", "prompt": prompt, "max_tokens": 1})


def chat(content):
    return chat_parameters({"model": "m", "messages": [{"role": "user", "content": content}]})


async def test_every_prompt_is_measured_before_the_first_is_encoded(prompts, tokenizer) -> None:
    with pytest.raises(ApiError, match="characters cannot fit"):
        await prompts.completion(completion(["short", "x" * 2_000_000]))
    assert tokenizer.lengths == []


@pytest.mark.parametrize("kind", ["completion", "chat"])
async def test_what_has_too_many_tokens_is_never_encoded_whole(prompts, tokenizer, kind) -> None:
    text = "x" * 3 * MAX_MODEL_LEN
    parameters = completion(text) if kind == "completion" else chat(text)
    with pytest.raises(ApiError, match="has more than 100000"):
        await getattr(prompts, kind)(parameters)
    assert tokenizer.lengths == [PIECE_CHARACTERS] * 4


async def test_a_short_text_is_encoded_once(prompts, tokenizer) -> None:
    (prompt,) = await prompts.completion(completion("x" * 40_000))
    assert len(prompt.token_ids) == 40_000
    assert tokenizer.lengths == [40_000]


@pytest.mark.parametrize("kind", ["completion", "chat"])
async def test_text_whose_token_the_model_lacks_is_refused(tokenizer, kind) -> None:
    """Tokenizers are shipped with tokens beyond the model's embedding, which one prompt can name for all."""
    prompts = Prompts(tokenizer, max_model_len=MAX_MODEL_LEN, vocab_size=1)
    parameters = completion("x") if kind == "completion" else chat("x")
    with pytest.raises(ApiError, match="below 1"):
        await getattr(prompts, kind)(parameters)
    prompts.close()
