"""What can never be computed is refused at once: in OpenAI's words, with its parameter, streaming or not."""

import openai
import pytest

LONG = "a" * 256
"""As many tokens as the model's context."""
SHORT = "a" * 250


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streaming"])
@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"prompt": LONG, "max_tokens": 1}, "prompt"),
        ("/v1/completions", {"prompt": LONG}, "prompt"),
        ("/v1/completions", {"prompt": ["a", LONG + "a"], "max_tokens": 1}, "prompt"),
        ("/v1/completions", {"prompt": [97] * 1000, "max_tokens": 1}, "prompt"),
        ("/v1/completions", {"prompt": SHORT, "max_tokens": 7}, "max_tokens"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG}]}, "messages"),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": SHORT}], "max_completion_tokens": 200},
            "max_completion_tokens",
        ),
    ],
)
def test_a_prompt_longer_than_the_context_is_refused_with_its_parameter(server, path, body, param, stream):
    steps = len(server.model.plans)
    refused = server.post(path, {"model": "alphabet", "stream": stream} | body)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "context_length_exceeded")
    assert error["param"] == param
    assert "256" in error["message"], "it says how long it may be"
    assert len(server.model.plans) == steps, "not a token of it was computed"


def test_the_official_client_raises_what_it_raises_for_openai(server):
    with pytest.raises(openai.BadRequestError) as refused:
        server.client().completions.create(model="alphabet", prompt=LONG, max_tokens=1)
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "prompt")


def test_a_prompt_that_just_fits_is_answered_and_ends_by_length(server):
    answer = server.post(
        "/v1/completions", {"model": "alphabet", "prompt": "a" * 255, "max_tokens": 1}
    ).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == 256
