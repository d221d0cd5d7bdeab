"""Parameters that shape prompt and text: truncation, salts, special tokens, kept stops, final messages."""

import pytest


def text(server, prompt="w", **parameters):
    body = {"model": "alphabet", "prompt": prompt, "max_tokens": 9} | parameters
    response = server.post("/v1/completions", body)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["text"]


def test_control_tokens_are_left_out_or_spelled(server) -> None:
    assert text(server, include_stop_str_in_output=True) == "xyz"
    assert text(server, include_stop_str_in_output=True, skip_special_tokens=False) == "xyz<end>"
    assert text(server, skip_special_tokens=False) == "xyz"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"stop": "cd"}, "abcd"),
        ({"stop": ["e", "bcd"]}, "abcd"),
        ({"stop_token_ids": [ord("d")]}, "abcd"),
        ({"stop": "zz"}, "abcdefghi"),
    ],
)
def test_what_stopped_an_output_can_be_kept(server, parameters, expected, stream) -> None:
    messages = [{"role": "user", "content": "a"}]
    asked = {"model": "alphabet", "messages": messages, "max_tokens": 9, "stream": stream}
    extra = {"include_stop_str_in_output": True} | {
        name: value for name, value in parameters.items() if name != "stop"
    }
    answer = server.client().chat.completions.create(**asked, stop=parameters.get("stop"), extra_body=extra)
    if stream:
        assert "".join(chunk.choices[0].delta.content or "" for chunk in answer) == expected
    else:
        assert answer.choices[0].message.content == expected


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (3, 3), (50, 6), (-1, 6)])
def test_a_prompt_can_be_cut_to_its_end(server, most, expected) -> None:
    body = {"model": "alphabet", "prompt": "abcdef", "max_tokens": 1, "truncate_prompt_tokens": most}
    answer = server.post("/v1/completions", body).json()
    assert answer["usage"]["prompt_tokens"] == expected
    assert answer["choices"][0]["text"] == "g"


def test_minus_one_keeps_as_much_as_leaves_room_for_the_answer(server) -> None:
    body = {"model": "alphabet", "truncate_prompt_tokens": -1}
    text = body | {"prompt": [97] * 1000, "max_tokens": 56}
    assert server.post("/v1/completions", text).json()["usage"]["prompt_tokens"] == 200
    chat = body | {"messages": [{"role": "user", "content": "a" * 1000}], "max_completion_tokens": 57}
    assert server.post("/v1/chat/completions", chat).json()["usage"]["prompt_tokens"] == 199


def test_an_echo_is_what_was_kept_of_the_prompt(server) -> None:
    assert text(server, "abc", echo=True, max_tokens=1) == "abcd"
    assert text(server, [97, 98], echo=True, max_tokens=1) == "abc"
    assert text(server, "abc", echo=True, max_tokens=1, truncate_prompt_tokens=2) == "bcd"
    assert text(server, [257, 98], echo=True, max_tokens=1) == "bc"
    assert text(server, [257, 98], echo=True, max_tokens=1, skip_special_tokens=False) == "<turn>bc"


def test_a_stop_string_is_looked_for_in_the_output_alone(server) -> None:
    assert text(server, "abc", echo=True, stop="bc", max_tokens=2) == "abcde"


def test_a_salt_keeps_prompts_from_sharing_their_cache(server) -> None:
    def cached(**parameters):
        body = {"model": "alphabet", "prompt": "salted twelve", "max_tokens": 1} | parameters
        usage = server.post("/v1/completions", body).json()["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    assert cached() == 0
    assert cached() > 0
    assert cached(cache_salt="a") == 0
    assert cached(cache_salt="a") > 0
    assert cached(cache_salt="b") == 0


def test_the_final_message_can_be_continued(server) -> None:
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "abc"}]
    body = {"model": "alphabet", "messages": messages, "max_tokens": 2, "continue_final_message": True}
    answer = server.post("/v1/chat/completions", body).json()
    assert answer["choices"][0]["message"]["content"] == "de"
    assert answer["usage"]["prompt_tokens"] == 5


def test_requests_without_a_seed_differ_and_an_engines_seed_repeats_them(start) -> None:
    def seeds(**config):
        server = start(**config)
        for _ in range(2):
            server.client().completions.create(model="alphabet", prompt="a", n=2, max_tokens=1)
        return [row.sampling.seed for plan in server.model.plans for row in plan.rows if row.sampled_rows]

    first, again, other, free = seeds(seed=1), seeds(seed=1), seeds(seed=2), seeds()
    assert first == again
    assert len({*first, *other, *free}) == 12
    assert len({*free, *seeds()}) == 8


def test_a_conversation_is_tokenized_as_it_would_be_asked(server) -> None:
    messages = [{"role": "user", "content": "ab"}]
    answer = server.post("/tokenize", {"messages": messages, "return_token_strs": True}).json()
    assert answer == {
        "count": 3,
        "max_model_len": 256,
        "tokens": [97, 98, 257],
        "token_strs": ["a", "b", "<turn>"],
    }
    continued = server.post("/tokenize", {"messages": messages, "continue_final_message": True}).json()
    assert continued["tokens"] == [97, 98]


def test_ids_become_text_with_their_control_tokens(server) -> None:
    body = {"model": "alphabet", "tokens": [97, 257, 98]}
    assert server.post("/detokenize", body).json() == {"prompt": "a<turn>b"}
    assert server.post("/detokenize", {"tokens": []}).json() == {"prompt": ""}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": []}, "prompt"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"messages": [{"role": "user", "content": "x" * 9000}]}, "messages"),
        ("/tokenize", {"messages": [{"role": "x", "content": "x"}]}, "messages[0].role"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("/detokenize", {"tokens": [258]}, "tokens"),
        ("/detokenize", {"tokens": [1.5]}, "tokens[0]"),
    ],
)
def test_what_is_neither_text_nor_tokens_is_refused_by_name(server, path, body, param) -> None:
    response = server.post(path, body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
