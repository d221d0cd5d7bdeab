"""Whatever a client sends, it is told what is wrong: never a 5xx, never silence, never a request left
behind.
"""

import json
import time

import pytest

CHAT = {"model": "alphabet", "messages": [{"role": "user", "content": "a"}]}
TEXT = {"model": "alphabet", "prompt": "a"}

REFUSED_CHATS = [
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": "x", "name": "bob"}]}, "messages[0].name"),
    ({"messages": [{"role": "user", "content": "x", "colour": 1}]}, "messages[0].colour"),
    ({"messages": [{"role": "user", "content": "x"}] * 2049}, "messages"),
    (
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}
            ]
        },
        "messages[0].content[0].type",
    ),
    ({"messages": [{"role": "user", "content": "x" * (32 * 256 + 1)}]}, "messages"),
    ({"messages": [{"role": "user", "content": "x" * 256}]}, "messages"),
    ({"max_tokens": 4, "max_completion_tokens": 4}, "max_tokens"),
    ({"max_completion_tokens": 1000}, "max_completion_tokens"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"logprobs": 1}, "logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
    ({"top_logprobs": 5}, "top_logprobs"),
    ({"best_of": 2}, "best_of"),
    ({"echo": True}, "echo"),
    ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message"),
    ({"chat_template": "{{ 1 }}"}, "chat_template"),
    ({"chat_template_kwargs": {"messages": "x"}}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"a": [1]}}, "chat_template_kwargs.a"),
    ({"chat_template_kwargs": {"a": "x" * 1100}}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {f"a{n}": n for n in range(17)}}, "chat_template_kwargs"),
    ({"temprature": 1}, "temprature"),
]
REFUSED_COMPLETIONS = [
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [[]]}, "prompt[0]"),
    ({"prompt": ["a", ""]}, "prompt[1]"),
    ({"prompt": ["a", 1]}, "prompt"),
    ({"prompt": [True]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [258]}, "prompt"),
    ({"prompt": [2**40]}, "prompt"),
    ({"prompt": [97] * 256}, "prompt"),
    ({"prompt": ["a"] * 65}, "prompt"),
    ({"prompt": ["a"] * 9}, "prompt"),
    ({"prompt": {"a": 1}}, "prompt"),
    ({"echo": 1}, "echo"),
    ({"suffix": "x"}, "suffix"),
    ({"n": 3, "best_of": 2}, "best_of"),
    ({"best_of": 9}, "best_of"),
    ({"best_of": 2, "stream": True}, "best_of"),
    ({"prompt": ["a", "b"], "best_of": 5}, "best_of"),
    ({"logprobs": 21}, "logprobs"),
    ({"logprobs": -1}, "logprobs"),
    ({"logprobs": True}, "logprobs"),
    ({"prompt": ["a", "b"], "n": 5}, "n"),
]
REFUSED_EVERYWHERE = [
    ({"model": None}, "model"),
    ({"model": 7}, "model"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"max_tokens": "5"}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": 2**31}, "max_tokens"),
    ({"max_tokens": 257}, "max_tokens"),
    ({"max_tokens": 2, "min_tokens": 3}, "min_tokens"),
    ({"min_tokens": -1}, "min_tokens"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "1"}, "temperature"),
    ({"temperature": False}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.01}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"seed": 2**63}, "seed"),
    ({"seed": -(2**63) - 1}, "seed"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"stop": "é" * 129}, "stop"),
    ({"stop": [1]}, "stop"),
    ({"stop": {"a": 1}}, "stop"),
    ({"stop_token_ids": [258]}, "stop_token_ids"),
    ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
    ({"stop_token_ids": [1] * 129}, "stop_token_ids"),
    ({"n": 9}, "n"),
    ({"n": 0}, "n"),
    ({"n": 5_000_000}, "n"),
    ({"presence_penalty": 2.1}, "presence_penalty"),
    ({"frequency_penalty": -2.1}, "frequency_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"repetition_penalty": 11}, "repetition_penalty"),
    ({"logit_bias": {"258": 1}}, "logit_bias"),
    ({"logit_bias": {"5": 101}}, "logit_bias"),
    ({"logit_bias": {"-5": 1}}, "logit_bias"),
    ({"logit_bias": {str(n): 1 for n in range(1025)}}, "logit_bias"),
    ({"logit_bias": [1]}, "logit_bias"),
    ({"allowed_token_ids": []}, "allowed_token_ids"),
    ({"allowed_token_ids": [258]}, "allowed_token_ids"),
    ({"bad_words": [""]}, "bad_words[0]"),
    ({"bad_words": ["a"] * 33}, "bad_words"),
    ({"bad_words": ["a", "  "]}, "bad_words"),
    ({"min_p": 1.1}, "min_p"),
    ({"min_p": -0.1}, "min_p"),
    ({"prompt_logprobs": -1}, "prompt_logprobs"),
    ({"prompt_logprobs": 21}, "prompt_logprobs"),
    ({"prompt_logprobs": 257}, "prompt_logprobs"),
    ({"prompt_logprobs": 258}, "prompt_logprobs"),
    ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
    ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
    ({"cache_salt": ""}, "cache_salt"),
    ({"use_beam_search": True}, "use_beam_search"),
    ({"stream": "true"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usages": True}}, "stream_options.include_usages"),
    (
        {"stream": True, "stream_options": {"continuous_usage_stats": True}},
        "stream_options.continuous_usage_stats",
    ),
    ({"priority": 1}, "priority"),
    ({"priority": 2**31}, "priority"),
    ({"user": 5}, "user"),
    ({"user": "x" * 257}, "user"),
    ({"guided_json": {}}, "guided_json"),
    ({"__proto__": 1}, "__proto__"),
]
CASES = [
    *(("/v1/chat/completions", CHAT | change, param) for change, param in REFUSED_CHATS + REFUSED_EVERYWHERE),
    *(
        ("/v1/completions", TEXT | change, param)
        for change, param in REFUSED_COMPLETIONS + REFUSED_EVERYWHERE
    ),
]


@pytest.mark.parametrize(("path", "body", "param"), CASES, ids=lambda value: str(value)[:60])
def test_a_parameter_is_refused_by_its_name(server, path, body, param) -> None:
    response = server.post(path, body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert error["type"] == "invalid_request_error"
    assert 0 < len(error["message"]) <= 420
    assert set(error) == {"message", "type", "param", "code"}


def test_what_asks_for_nothing_is_accepted(server) -> None:
    neutral = {
        "n": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "logit_bias": {},
        "logprobs": False,
        "top_logprobs": None,
        "tools": None,
        "tool_choice": "none",
        "response_format": {"type": "text"},
        "user": "u-1",
        "service_tier": "auto",
        "stop": None,
        "seed": None,
        "priority": 0,
        "min_p": 0,
    }
    assert server.post("/v1/chat/completions", CHAT | neutral | {"max_tokens": 1}).status_code == 200


LITERALS = [
    (b'{"model":"alphabet","prompt":"a","temperature":1e400}', "temperature"),
    (b'{"model":"alphabet","prompt":"a","temperature":-1e400}', "temperature"),
    (b'{"model":"alphabet","prompt":"a","temperature":NaN}', "temperature"),
    (b'{"model":"alphabet","prompt":"a","top_p":Infinity}', "top_p"),
    (b'{"model":"alphabet","prompt":"a","top_p":-Infinity}', "top_p"),
    (b'{"model":"alphabet","prompt":"a","seed":' + b"9" * 5000 + b"}", "seed"),
    (b'{"model":"alphabet","prompt":["a\\ud800"]}', "prompt"),
    (b'{"model":"alphabet","prompt":"a","prompt":"b"}', "prompt"),
    (b'{"model":"alphabet","prompt":"a","logit_bias":{"1":1,"1":2}}', "1"),
    (b'{"model":"alphabet","prompt":"\xff"}', None),
    ('{"model":"alphabet","prompt":"a"}'.encode("utf-16"), None),
    (b'{"a":' * 65 + b"1" + b"}" * 65, None),
    (b"[" * 90_000, None),
    (b'{"a":[' + b"[]," * 30_000 + b"1]}", None),
    (b'"' + b'\\"' * 40_000, None),
    (b'["model"]', None),
    (b"null", None),
    (b"{", None),
    (b"", None),
]


@pytest.mark.parametrize(("body", "param"), LITERALS, ids=lambda value: str(value)[:40])
def test_json_is_read_strictly(server, body, param) -> None:
    began = time.process_time()
    response = server.http.post(
        server.url + "/v1/completions", content=body, headers={"content-type": "application/json"}
    )
    assert time.process_time() - began < 1
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({}, 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_a_body_is_plain_json(server, headers, status) -> None:
    body = json.dumps(TEXT | {"max_tokens": 1}).encode()
    assert (
        server.http.post(server.url + "/v1/completions", content=body, headers=headers).status_code == status
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/docs", 404),
        ("GET", "/redoc", 404),
        ("GET", "/v1/admin/limits", 404),
        ("GET", "/v1/chat/completions", 405),
        ("OPTIONS", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/v1/models/", 404),
    ],
)
def test_there_is_nothing_but_the_routes(server, method, path, status) -> None:
    response = server.http.request(method, server.url + path, headers={"origin": "http://evil.example"})
    assert response.status_code == status
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert not any(name.startswith("access-control") for name in response.headers)


def test_every_reply_is_safe_to_show_nobody(server) -> None:
    for path in ("/livez", "/metrics", "/v1/models", "/nowhere"):
        headers = server.http.get(server.url + path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_nothing_refused_stays_in_the_engine(server) -> None:
    assert server.metric("headrace_in_flight") == 0
    assert server.metric("vllm:kv_cache_usage_perc") == 0
