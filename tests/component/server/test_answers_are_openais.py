"""The official client gets what it expects, streaming and not."""

import json
import re

import openai
import pytest
from openai import AsyncOpenAI

USER_A = [{"role": "user", "content": "a"}]


def test_a_chat_is_answered_whole(server) -> None:
    answer = server.client().chat.completions.create(model="alphabet", messages=USER_A, max_tokens=5)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "alphabet"
    choice = answer.choices[0]
    assert (choice.index, choice.message.role, choice.message.content) == (0, "assistant", "abcde")
    assert choice.finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (
        2,
        5,
        7,
    )


def test_an_answer_that_ends_by_itself_says_stop_and_counts_the_end_token(server) -> None:
    answer = server.client().completions.create(model="alphabet", prompt="w", max_tokens=50)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("xyz", "stop")
    assert answer.usage.completion_tokens == 4


def test_ignore_eos_goes_on_to_the_limit(server) -> None:
    answer = server.client().completions.create(
        model="alphabet", prompt="w", max_tokens=6, extra_body={"ignore_eos": True}
    )
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("xyzab", "length")
    assert answer.usage.completion_tokens == 6


def test_min_tokens_puts_the_end_off(server) -> None:
    answer = server.client().completions.create(
        model="alphabet", prompt="y", max_tokens=20, extra_body={"min_tokens": 4}
    )
    assert answer.choices[0].text == "zabcdefghijklmnopqr"[: len(answer.choices[0].text)]
    assert answer.usage.completion_tokens >= 4


def test_completions_stop_at_sixteen_tokens_and_chats_at_the_context(server) -> None:
    client = server.client()
    short = client.completions.create(model="alphabet", prompt="a")
    assert (short.choices[0].text, short.choices[0].finish_reason) == ("bcdefghijklmnopq", "length")
    whole = client.chat.completions.create(model="alphabet", messages=USER_A, extra_body={"ignore_eos": True})
    assert whole.usage.total_tokens == 256
    assert whole.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"max_tokens": 3},
        {"stop": "fgh"},
        {"stop": ["zz", "mno", "no"]},
        {"stop": "yz", "max_tokens": 26},
        {"max_tokens": 26, "extra_body": {"stop_token_ids": [ord("k")]}},
        {"seed": 7, "temperature": 0.5, "top_p": 0.9, "extra_body": {"top_k": 5, "min_tokens": 2}},
    ],
)
def test_a_stream_adds_up_to_the_whole_answer(server, parameters) -> None:
    client = server.client()
    whole = client.chat.completions.create(model="alphabet", messages=USER_A, **parameters)
    stream = client.chat.completions.create(
        model="alphabet",
        messages=USER_A,
        stream=True,
        stream_options={"include_usage": True},
        **parameters,
    )
    *chunks, last = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == whole.choices[0].message.content
    reasons = [c.choices[0].finish_reason for c in chunks]
    assert [reason for reason in reasons if reason] == [whole.choices[0].finish_reason]
    assert reasons[-1] is not None
    assert last.choices == []
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert all(getattr(last.usage, count) == getattr(whole.usage, count) for count in counts)
    assert all(chunk.usage is None for chunk in chunks)
    assert {(c.id, c.created, c.model, c.object) for c in (*chunks, last)} == {
        (last.id, last.created, "alphabet", "chat.completion.chunk")
    }


def test_the_bytes_of_a_chat_stream(server) -> None:
    body = {"model": "alphabet", "messages": USER_A, "max_tokens": 1, "stream": True}
    body["stream_options"] = {"include_usage": True}
    response = server.post("/v1/chat/completions", body)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    answer_id = re.search(r"chatcmpl-[0-9a-f]{32}", response.text).group()
    created = int(re.search(r'"created":(\d+)', response.text).group(1))
    fingerprint = re.search(r"fp_[0-9a-f]{10}", response.text).group()
    head = (
        f'data: {{"id":"{answer_id}","object":"chat.completion.chunk","created":{created},"model":"alphabet",'
        f'"system_fingerprint":"{fingerprint}",'
    )
    assert response.text == (
        head
        + '"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,'
        + '"finish_reason":null}],"usage":null}\n\n'
        + head
        + '"choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null}],'
        + '"usage":null}\n\n'
        + head
        + '"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null}\n\n'
        + head
        + '"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3,'
        + '"prompt_tokens_details":{"cached_tokens":0}}}\n\n'
        + "data: [DONE]\n\n"
    )


def test_without_include_usage_no_chunk_speaks_of_usage(server) -> None:
    body = {"model": "alphabet", "prompt": "a", "max_tokens": 3, "stream": True}
    response = server.post("/v1/completions", body)
    assert "usage" not in response.text
    assert response.text.endswith("data: [DONE]\n\n")


def test_usage_can_be_had_with_every_chunk(server) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"model": "alphabet", "prompt": "a", "max_tokens": 3, "stream": True, "stream_options": options}
    events = server.post("/v1/completions", body).text.split("\n\n")[:-2]
    counts = [json.loads(event.removeprefix("data: "))["usage"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert counts[0] >= 1
    assert counts[-1] == 3


def test_several_prompts_are_several_choices(server) -> None:
    client = server.client()
    prompts = ["a", "k", "xy"]
    whole = client.completions.create(model="alphabet", prompt=prompts, max_tokens=2)
    assert [(c.index, c.text, c.finish_reason) for c in whole.choices] == [
        (0, "bc", "length"),
        (1, "lm", "length"),
        (2, "z", "stop"),
    ]
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (4, 6)
    texts = ["", "", ""]
    for chunk in client.completions.create(model="alphabet", prompt=prompts, max_tokens=2, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == ["bc", "lm", "z"]


def test_a_prompt_of_token_ids_is_taken_as_it_is(server) -> None:
    client = server.client()
    assert client.completions.create(model="alphabet", prompt=[104], max_tokens=2).choices[0].text == "ij"
    both = client.completions.create(model="alphabet", prompt=[[104], [97, 98]], max_tokens=1)
    assert [choice.text for choice in both.choices] == ["i", "c"]


def test_message_parts_are_joined_and_roles_pass(server) -> None:
    parts = [{"type": "text", "text": "ab"}, {"type": "text", "text": "c"}]
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "d", "refusal": None, "tool_calls": None, "audio": None},
        {"role": "user", "content": "e"},
    ]
    answer = server.client().chat.completions.create(model="alphabet", messages=messages, max_tokens=1)
    assert answer.usage.prompt_tokens == len("be brief") + len("ab\nc") + len("d") + len("e") + 4


def test_the_model_is_listed_and_another_is_not_found(start) -> None:
    server = start(served_model_names=("alphabet", "org/alphabet"))
    models = server.client().models.list().data
    assert [(card.id, card.object) for card in models] == [("alphabet", "model"), ("org/alphabet", "model")]
    assert [server.client().models.retrieve(card.id) for card in models] == models
    with pytest.raises(openai.NotFoundError):
        server.client().models.retrieve("gpt-4o")
    with pytest.raises(openai.NotFoundError) as caught:
        server.client().chat.completions.create(model="gpt-4o", messages=USER_A)
    assert caught.value.body["code"] == "model_not_found"
    assert caught.value.body["param"] == "model"


async def test_the_async_client_streams_many_at_once(server) -> None:
    import asyncio

    client = AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)

    async def recite(first: str) -> str:
        stream = await client.completions.create(model="alphabet", prompt=first, max_tokens=30, stream=True)
        return "".join([chunk.choices[0].text async for chunk in stream])

    letters = "abcdefghijklmnopqrstuvwxy"
    async with client:
        answers = await asyncio.gather(*(recite(letter) for letter in letters))
    alphabet = letters + "z"
    assert answers == [alphabet[alphabet.index(letter) + 1 :] for letter in letters]


def test_the_request_id_is_the_clients_if_it_is_a_plain_one(server) -> None:
    body = {"model": "alphabet", "prompt": "a", "max_tokens": 1}
    given = server.post("/v1/completions", body, headers={"x-request-id": "job-7.a_b"})
    assert given.headers["x-request-id"] == "job-7.a_b"
    forged = server.http.get(server.url + "/readyz", headers={"x-request-id": "a b;c"})
    assert re.fullmatch("[0-9a-f]{32}", forged.headers["x-request-id"])


def test_tokenize_counts_as_a_prompt_would(server) -> None:
    for named in ({}, {"model": "alphabet"}):
        answer = server.post("/tokenize", {"prompt": "abc"} | named).json()
        assert answer == {"count": 3, "max_model_len": 256, "tokens": [97, 98, 99], "token_strs": None}
    assert server.post("/tokenize", {"prompt": ""}).json()["count"] == 0
    assert server.post("/tokenize", {"prompt": "abc", "model": "gpt-4o"}).status_code == 404
