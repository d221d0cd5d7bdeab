"""Log probabilities are counted as often as an answer tells them, and leave room for the answer itself."""

from typing import Any

import pytest

from headrace_engine.core.limits import Capacity
from headrace_engine.core.request import Request
from headrace_engine.server.bounds import MAX_SCORES, Wanted, engine_requests
from headrace_engine.server.errors import ApiError
from headrace_engine.server.model import ModelFacts
from headrace_engine.server.parameters import chat_parameters, completion_parameters
from headrace_engine.server.prompts import Prompt
from headrace_engine.server.seeds import Seeds

CAPACITY = Capacity(
    max_num_seqs=64, max_num_batched_tokens=512, max_model_len=1 << 18, num_blocks=8192, block_size=64
)
MODEL = ModelFacts(capacity=CAPACITY, vocab_size=1000, eos_token_ids=frozenset({2}), dtype="float32")


def asked(num_prompt_tokens: int, **body: Any) -> list[Request]:
    is_chat = "messages" in body
    parameters = (chat_parameters if is_chat else completion_parameters)({"model": "m", **body})
    wanted = Wanted(parameters, [Prompt((50,) * num_prompt_tokens)])
    return engine_requests(MODEL, wanted, Seeds(1), answer_id="a", arrival_s=0.0)


def chat(**body: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "x"}], **body}


def completion(**body: Any) -> dict[str, Any]:
    return {"prompt": "x", "max_tokens": 1, **body}


TOLD_OF_EACH_PROMPT_TOKEN = {
    "a chat tells of its prompt once": (chat(n=8, prompt_logprobs=4), 5),
    "a completion beside each choice": (completion(n=8, prompt_logprobs=4), 8 * 5),
    "an echo in each choice": (completion(n=4, echo=True, logprobs=1, stream=True), 4 * 2),
    "an echo in each candidate": (completion(n=2, best_of=6, echo=True, logprobs=0), 6),
    "an echo and the prompt itself": (completion(n=2, echo=True, logprobs=1, prompt_logprobs=4), 2 * (2 + 5)),
}


@pytest.mark.parametrize(("body", "told"), TOLD_OF_EACH_PROMPT_TOKEN.values(), ids=TOLD_OF_EACH_PROMPT_TOKEN)
def test_what_is_told_of_a_prompt_counts_each_time(body, told) -> None:
    assert asked(MAX_SCORES // told - 8, **body)
    with pytest.raises(ApiError, match="ask for fewer") as refused:
        asked(MAX_SCORES // told + 1, **body)
    assert refused.value.body.param == ("prompt_logprobs" if "prompt_logprobs" in body else "logprobs")


def test_a_prompt_that_leaves_no_token_to_tell_of_is_refused_and_not_answered_with_nothing() -> None:
    body = chat(logprobs=True, top_logprobs=20, prompt_logprobs=20)
    assert [request.max_tokens for request in asked(MAX_SCORES // 21 - 3, **body)] == [3]
    with pytest.raises(ApiError, match="ask for fewer"):
        asked(MAX_SCORES // 21, **body)


def test_a_prompt_alone_may_be_told_of_to_the_last() -> None:
    body = completion(max_tokens=0, echo=True, logprobs=0)
    assert [request.max_tokens for request in asked(MAX_SCORES, **body)] == [0]
