"""How likely each token was, in OpenAI's shapes: whole and streamed, of chats, completions and prompts.

The model recites the alphabet; it finds each letter it says likeliest (-0.25), then the capitals, and every
token of a prompt unlikely (-30.5, behind the capitals).
"""

import json
from dataclasses import replace

import pytest

USER_A = [{"role": "user", "content": "a"}]


def chat(server, **parameters):
    return server.client().chat.completions.create(model="alphabet", messages=USER_A, **parameters)


def complete(server, **parameters):
    extra = parameters.pop("extra_body", {})
    return server.client().completions.create(model="alphabet", extra_body=extra, **parameters)


def events(server, path, body):
    text = server.post(path, body | {"model": "alphabet", "stream": True}).text
    assert text.endswith("data: [DONE]\n\n")
    return [json.loads(event.removeprefix("data: ")) for event in text.split("\n\n")[:-2]]


def test_a_chat_tells_each_token_with_its_bytes_and_the_likeliest(server) -> None:
    choice = chat(server, max_tokens=3, logprobs=True, top_logprobs=2).choices[0]
    assert choice.message.content == "abc"
    assert choice.logprobs.refusal is None
    assert [each.model_dump() for each in choice.logprobs.content] == [
        {
            "token": letter,
            "logprob": -0.25,
            "bytes": [ord(letter)],
            "top_logprobs": [
                {"token": letter, "logprob": -0.25, "bytes": [ord(letter)]},
                {"token": "A", "logprob": -1.25, "bytes": [65]},
            ],
        }
        for letter in "abc"
    ]


@pytest.mark.parametrize("parameters", [{"logprobs": True}, {"logprobs": True, "top_logprobs": 0}])
def test_without_a_number_the_likeliest_are_left_out(server, parameters) -> None:
    content = chat(server, max_tokens=2, **parameters).choices[0].logprobs.content
    assert [each.top_logprobs for each in content] == [[], []]


@pytest.mark.parametrize("parameters", [{}, {"logprobs": False}, {"logprobs": False, "top_logprobs": 0}])
def test_what_is_not_asked_is_null(server, parameters) -> None:
    body = {"model": "alphabet", "messages": USER_A, "max_tokens": 2} | parameters
    assert '"logprobs":null' in server.post("/v1/chat/completions", body).text


def test_the_token_that_ends_an_answer_is_told_of_and_counted(server) -> None:
    messages = [{"role": "user", "content": "x"}]
    answer = server.client().chat.completions.create(model="alphabet", messages=messages, logprobs=True)
    content = answer.choices[0].logprobs.content
    assert answer.choices[0].finish_reason == "stop"
    assert content[-1].token == "<end>"
    assert len(content) == answer.usage.completion_tokens
    assert "".join(each.token for each in content[:-1]) == answer.choices[0].message.content


def test_the_bytes_of_a_chat_stream_with_log_probabilities(server) -> None:
    body = {"messages": USER_A, "max_tokens": 1, "logprobs": True, "top_logprobs": 1}
    text = server.post("/v1/chat/completions", body | {"model": "alphabet", "stream": True}).text
    _, told, ended = (event.partition('"choices":')[2] for event in text.split("\n\n")[:3])
    assert told == (
        '[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-0.25,"bytes":[97],'
        '"top_logprobs":[{"token":"a","logprob":-0.25,"bytes":[97]}]}],"refusal":null},"finish_reason":null}]}'
    )
    assert ended == '[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}'


@pytest.mark.parametrize("stop", [None, "fgh", "gz"])
def test_a_stream_tells_what_the_whole_answer_does(server, stop) -> None:
    parameters = {"max_tokens": 12, "logprobs": True, "top_logprobs": 1, "stop": stop}
    whole = chat(server, **parameters).choices[0].logprobs.content
    chunks = chat(server, stream=True, **parameters)
    told = [
        each for chunk in chunks if chunk.choices[0].logprobs for each in chunk.choices[0].logprobs.content
    ]
    assert told == whole


def test_the_four_lists_of_a_completion(server) -> None:
    logprobs = complete(server, prompt="k", max_tokens=2, logprobs=2).choices[0].logprobs
    assert logprobs.model_dump() == {
        "text_offset": [0, 1],
        "token_logprobs": [-0.25, -0.25],
        "tokens": ["l", "m"],
        "top_logprobs": [{"l": -0.25, "A": -1.25}, {"m": -0.25, "A": -1.25}],
    }


def test_the_token_itself_is_always_among_its_likeliest(server) -> None:
    logprobs = complete(server, prompt="k", max_tokens=1, logprobs=0).choices[0].logprobs
    assert logprobs.top_logprobs == [{"l": -0.25}]


def test_an_echo_has_the_prompt_in_front_with_nothing_known_of_its_first_token(server) -> None:
    choice = complete(server, prompt="hij", max_tokens=2, logprobs=1, echo=True).choices[0]
    assert choice.text == "hijkl"
    assert choice.logprobs.model_dump() == {
        "text_offset": [0, 1, 2, 3, 4],
        "token_logprobs": [None, -30.5, -30.5, -0.25, -0.25],
        "tokens": ["h", "i", "j", "k", "l"],
        "top_logprobs": [None, {"A": -0.5, "i": -30.5}, {"A": -0.5, "j": -30.5}, {"k": -0.25}, {"l": -0.25}],
    }


def test_a_prompt_alone_can_be_scored(server) -> None:
    """As harnesses score a text: nothing is generated, and the whole context may be used."""
    answer = complete(server, prompt=[97] * 256, max_tokens=0, logprobs=0, echo=True)
    assert answer.usage.completion_tokens == 0
    assert len(answer.choices[0].logprobs.tokens) == 256
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("a" * 256, "length")


@pytest.mark.parametrize("logprobs", [None, 1])
def test_an_echo_in_a_stream_comes_with_the_first_chunk_of_each_choice(server, logprobs) -> None:
    body = {"prompt": ["ab", "xy"], "n": 2, "max_tokens": 2, "echo": True, "logprobs": logprobs}
    whole = server.post("/v1/completions", body | {"model": "alphabet"}).json()["choices"]
    texts, told = [""] * 4, [[] for _ in range(4)]
    for event in events(server, "/v1/completions", body):
        (choice,) = event["choices"]
        if not texts[choice["index"]]:
            assert choice["text"].startswith(("ab", "xy")[choice["index"] // 2])
        texts[choice["index"]] += choice["text"]
        if choice["logprobs"]:
            told[choice["index"]] += choice["logprobs"]["tokens"]
    assert texts == [choice["text"] for choice in whole]
    assert told == [choice["logprobs"]["tokens"] if logprobs else [] for choice in whole]


def test_characters_of_several_tokens_are_told_byte_by_byte(server) -> None:
    choice = complete(server, prompt="é世", max_tokens=1, logprobs=0, echo=True).choices[0]
    assert choice.text == "é世a"
    assert choice.logprobs.tokens == [
        *("bytes:\\xc3", "bytes:\\xa9", "bytes:\\xe4", "bytes:\\xb8", "bytes:\\x96"),
        "a",
    ]
    assert choice.logprobs.text_offset == [0, 0, 1, 1, 1, 2]
    for offset, token in zip(choice.logprobs.text_offset, choice.logprobs.tokens, strict=True):
        assert token.startswith("bytes:") or choice.text.startswith(token, offset)


def test_tokens_can_be_named_by_their_ids(server) -> None:
    extra = {"return_tokens_as_token_ids": True}
    logprobs = complete(server, prompt="k", max_tokens=1, logprobs=1, extra_body=extra).choices[0].logprobs
    assert logprobs.tokens == ["token_id:108"]
    assert logprobs.top_logprobs == [{"token_id:108": -0.25}]


def test_a_prompts_log_probabilities_are_vllms(server) -> None:
    told = [
        None,
        {
            "98": {"logprob": -30.5, "rank": 40, "decoded_token": "b"},
            "65": {"logprob": -0.5, "rank": 1, "decoded_token": "A"},
        },
    ]
    body = {"model": "alphabet", "max_tokens": 1, "prompt_logprobs": 1}
    of_text = server.post("/v1/completions", body | {"prompt": ["ab", "xy"]}).json()
    assert [choice["prompt_logprobs"][0] for choice in of_text["choices"]] == [None, None]
    assert of_text["choices"][0]["prompt_logprobs"] == told
    assert of_text["choices"][0]["logprobs"] is None
    messages = [{"role": "user", "content": "a"}]
    of_chat = server.post("/v1/chat/completions", body | {"messages": messages}).json()
    assert [entry and list(entry) for entry in of_chat["prompt_logprobs"]] == [None, ["257", "65"]]


def test_the_prompts_own_number_and_the_echos_do_not_mix(server) -> None:
    body = {
        "model": "alphabet",
        "prompt": "ab",
        "max_tokens": 1,
        "echo": True,
        "logprobs": 2,
        "prompt_logprobs": 0,
    }
    (choice,) = server.post("/v1/completions", body).json()["choices"]
    assert list(choice["prompt_logprobs"][1]) == ["98"]
    assert choice["logprobs"]["top_logprobs"][1] == {"A": -0.5, "B": -1.5, "b": -30.5}
    (quiet,) = server.post("/v1/completions", body | {"logprobs": None}).json()["choices"]
    assert quiet["logprobs"] is None
    assert quiet["text"] == "abc"


def test_ids_are_returned_where_they_are_asked(server) -> None:
    body = {"model": "alphabet", "max_tokens": 9, "return_token_ids": True}
    (choice,) = server.post("/v1/completions", body | {"prompt": "x"}).json()["choices"]
    assert (choice["prompt_token_ids"], choice["token_ids"]) == ([120], [121, 122, 256])
    whole = server.post("/v1/chat/completions", body | {"messages": USER_A}).json()
    assert whole["prompt_token_ids"] == [97, 257]
    assert whole["choices"][0]["token_ids"] == list(b"abcdefghi")


def test_ids_are_streamed_with_the_text(server) -> None:
    body = {"max_tokens": 9, "return_token_ids": True}
    first, *others = events(server, "/v1/chat/completions", body | {"messages": USER_A})
    assert first["prompt_token_ids"] == [97, 257]
    assert [token for chunk in others for token in chunk["choices"][0].get("token_ids", [])] == list(
        b"abcdefghi"
    )
    assert all("prompt_token_ids" not in chunk for chunk in others)
    choices = [event["choices"][0] for event in events(server, "/v1/completions", body | {"prompt": "x"})]
    assert [choice.get("prompt_token_ids") for choice in choices] == [[120], *[None] * (len(choices) - 1)]
    assert [token for choice in choices for token in choice.get("token_ids", [])] == [121, 122, 256]


def test_the_ids_of_a_prompt_are_streamed_where_nothing_follows_them_too(server) -> None:
    body = {"prompt": ["xy", "z"], "max_tokens": 0, "echo": True, "return_token_ids": True}
    choices = [event["choices"][0] for event in events(server, "/v1/completions", body)]
    told = sorted((choice["text"], choice["prompt_token_ids"]) for choice in choices if "token_ids" in choice)
    assert told == [("xy", [120, 121]), ("z", [122])]


def beginning_with_a_token(model):
    """The same model, whose tokenizer puts a control token before every text."""

    class Beginning(type(model.tokenizer)):
        def encode(self, text, *, add_special_tokens=True):
            return [257] * add_special_tokens + super().encode(text)

    return replace(model, tokenizer=Beginning())


@pytest.mark.parametrize("skips", [None, True, False])
def test_what_a_tokenizer_puts_before_a_text_takes_no_room_in_its_echo(start, skips) -> None:
    server = start(load=beginning_with_a_token)
    extra = {"skip_special_tokens": skips}
    asked = {"prompt": "hij", "max_tokens": 1, "logprobs": 0, "echo": True, "extra_body": extra}
    choice = complete(server, **asked).choices[0]
    assert choice.text == "hijk"
    assert choice.logprobs.text_offset == [0, 0, 1, 2, 3]


def test_a_whole_answer_holds_a_bounded_number_of_log_probabilities(start) -> None:
    server = start(max_model_len=65_536, num_blocks=20_000)
    body = {"model": "alphabet", "messages": USER_A, "logprobs": True, "top_logprobs": 20}
    refused = server.post("/v1/chat/completions", body | {"max_tokens": 6_242}).json()["error"]
    assert refused["param"] == "max_tokens"
    assert "6241" in refused["message"]
    prompt = {"model": "alphabet", "prompt": [97] * 30_000, "prompt_logprobs": 20, "max_tokens": 1}
    assert server.post("/v1/completions", prompt).json()["error"]["param"] == "prompt_logprobs"
    echo = {"model": "alphabet", "prompt": [97] * 20_000, "logprobs": 20, "echo": True, "max_tokens": 1}
    assert server.post("/v1/completions", echo).json()["error"]["param"] == "logprobs"
    # Where nobody named a length, it is what can be told of; this answer ends by itself long before.
    assert server.post("/v1/chat/completions", body | {"stop": "d"}).status_code == 200


def test_long_prompts_are_told_of_in_the_right_order(server) -> None:
    """Much to write is written on another thread."""
    prompt = [*range(97, 123)] * 9
    body = {"model": "alphabet", "prompt": prompt, "max_tokens": 4, "echo": True, "logprobs": 1, "n": 4}
    body["temperature"] = 0
    choices = server.post("/v1/completions", body).json()["choices"]
    streamed = [b""] * 4
    for event in events(server, "/v1/completions", body):
        if (told := event["choices"][0]["logprobs"]) is not None:
            streamed[event["choices"][0]["index"]] += "".join(told["tokens"]).encode()
    assert {len(choice["logprobs"]["tokens"]) for choice in choices} == {len(prompt) + 1}
    assert streamed == ["".join(choice["logprobs"]["tokens"]).encode() for choice in choices]
