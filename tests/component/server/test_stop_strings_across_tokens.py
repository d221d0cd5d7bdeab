"""A stop string ends an answer wherever it falls, shows no part of itself, and costs what was generated up
to it.
"""

import dataclasses
import threading

import pytest


@pytest.mark.parametrize(
    ("stop", "text", "num_tokens"),
    [
        ("d", "bc", 3),
        ("def", "bc", 5),
        (["xyz", "fg"], "bcde", 6),
        (["de", "cde"], "b", 4),
        (["e", "def"], "bcd", 4),
        (["bx", "cdx", "klm"], "bcdefghij", 12),
        ("b", "", 1),
    ],
)
def test_the_text_before_it_is_the_answer(server, stop, text, num_tokens) -> None:
    body = {"model": "alphabet", "prompt": "a", "max_tokens": 30, "stop": stop}
    answer = server.post("/v1/completions", body).json()
    choice = answer["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (text, "stop")
    assert answer["usage"]["completion_tokens"] == num_tokens


def test_a_stream_never_shows_a_part_of_it(server) -> None:
    stream = server.client().completions.create(
        model="alphabet", prompt="a", max_tokens=30, stop=["fgh", "hij"], stream=True
    )
    pieces = [chunk.choices[0].text for chunk in stream]
    assert "".join(pieces) == "bcde"


def test_a_part_that_comes_to_nothing_is_shown_after_all(server) -> None:
    answer = server.client().completions.create(model="alphabet", prompt="v", max_tokens=30, stop="yza")
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("wxyz", "stop")


def test_nothing_is_held_back_without_need(start) -> None:
    """No step is made before the token of the last one was read."""
    may_step = threading.Semaphore()

    class OneByOne:
        def __init__(self, model) -> None:
            self._model = model

        def run(self, plan):
            assert may_step.acquire(timeout=60)
            return self._model.run(plan)

    server = start(load=lambda loaded: dataclasses.replace(loaded, runner=OneByOne(loaded.runner)))
    stream = server.client().completions.create(
        model="alphabet", prompt="a", max_tokens=6, stop="zzzzzzzzzz", stream=True
    )
    shown = []
    for chunk in stream:
        shown.append(chunk.choices[0].text)
        may_step.release()
    assert shown == ["b", "c", "d", "e", "f", "g", ""]


def test_before_min_tokens_it_is_text_like_any_other(server) -> None:
    body = {"model": "alphabet", "prompt": "a", "max_tokens": 30, "stop": ["c", "j"], "min_tokens": 3}
    assert server.post("/v1/completions", body).json()["choices"][0]["text"] == "bcdefghi"


def test_the_engine_stops_too(start) -> None:
    server = start(step_s=0.005, max_model_len=8192, num_blocks=4096)
    body = {"model": "alphabet", "prompt": "a", "max_tokens": 8000, "stop": "c", "ignore_eos": True}
    assert server.post("/v1/completions", body).json()["choices"][0]["text"] == "b"
    server.eventually(lambda: server.metric("headrace_in_flight") == 0)
    assert server.metric("vllm:request_success_total", finished_reason="stop") == 1
    assert server.metric("vllm:generation_tokens_total") < 4000
