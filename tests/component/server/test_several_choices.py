"""`n` and `best_of`: several outputs of one prompt are one answer, one stream, one usage."""

import pytest

USER_A = [{"role": "user", "content": "abcdefghij"}]


def test_each_prompt_has_n_choices_in_order(server) -> None:
    answer = server.client().completions.create(model="alphabet", prompt=["a", "k"], n=3, max_tokens=2)
    assert [(choice.index, choice.text) for choice in answer.choices] == [
        *((0, "bc"), (1, "bc"), (2, "bc")),
        *((3, "lm"), (4, "lm"), (5, "lm")),
    ]


def test_a_prompt_is_counted_once_and_every_output(server) -> None:
    answer = server.client().chat.completions.create(model="alphabet", messages=USER_A, n=4, max_tokens=5)
    assert [choice.message.content for choice in answer.choices] == ["abcde"] * 4
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 20)


def test_the_prompt_is_computed_once(start) -> None:
    server = start()
    server.client().chat.completions.create(model="alphabet", messages=USER_A, n=4, max_tokens=3)
    rows = [row for plan in server.model.plans for row in plan.rows if row.start < 11]
    assert sorted(len(row.token_ids) for row in rows) == [3, 3, 3, 11]
    assert server.metric("vllm:prefix_cache_hits_total") == 3 * 8


@pytest.mark.parametrize("include_usage", [False, True])
def test_a_stream_has_one_role_one_end_and_its_text_for_each_choice(server, include_usage) -> None:
    stream = server.client().chat.completions.create(
        *(),
        model="alphabet",
        messages=USER_A,
        n=3,
        max_tokens=4,
        stream=True,
        stream_options={"include_usage": include_usage},
    )
    texts, roles, ends, usages = [""] * 3, [], [], []
    for chunk in stream:
        usages += [chunk.usage] if chunk.usage else []
        for choice in chunk.choices:
            roles += [choice.index] if choice.delta.role else []
            ends += [choice.index] if choice.finish_reason else []
            texts[choice.index] += choice.delta.content or ""
    assert texts == ["abcd"] * 3
    assert sorted(roles) == sorted(ends) == [0, 1, 2]
    assert len(usages) == int(include_usage)
    if include_usage:
        assert (usages[0].prompt_tokens, usages[0].completion_tokens) == (11, 12)


def test_each_choice_draws_on_a_seed_of_its_own_that_the_request_decides(server) -> None:
    server.model.plans.clear()
    server.client().completions.create(model="alphabet", prompt=["a", "b"], n=2, seed=-5, max_tokens=1)
    server.client().completions.create(model="alphabet", prompt="a", n=2, seed=2**63 - 1, max_tokens=1)
    seeds = [row.sampling.seed for plan in server.model.plans for row in plan.rows]
    assert sorted(seeds[:4]) == [-5, -5, -4, -4]
    assert sorted(seeds[4:]) == [-(2**63), 2**63 - 1]


def test_a_stop_string_ends_each_choice_by_itself(server) -> None:
    answer = server.client().completions.create(model="alphabet", prompt="a", n=3, stop="f", max_tokens=20)
    assert [(choice.text, choice.finish_reason) for choice in answer.choices] == [("bcde", "stop")] * 3
    assert server.eventually(lambda: server.metric("headrace_in_flight") == 0)


def test_the_best_of_several_are_shown_and_all_are_counted(server) -> None:
    answer = server.client().completions.create(model="alphabet", prompt="a", best_of=4, n=2, max_tokens=3)
    assert [(choice.index, choice.text, choice.logprobs) for choice in answer.choices] == [
        (0, "bcd", None),
        (1, "bcd", None),
    ]
    assert answer.usage.completion_tokens == 12


def test_so_many_sequences_are_refused_at_once(server) -> None:
    """vLLM CVE-2026-34756: n of 5,000,000 took 22 GB before anything was queued."""
    for body, param in (
        ({"n": 5_000_000}, "n"),
        ({"n": 8, "prompt": ["a", "b"]}, "n"),
        ({"best_of": 9}, "best_of"),
    ):
        refused = server.post("/v1/completions", {"model": "alphabet", "prompt": "a"} | body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_a_client_that_leaves_takes_every_choice_along(start) -> None:
    server = start(step_s=0.01)
    stream = server.client().completions.create(
        model="alphabet", prompt="a", n=4, max_tokens=200, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()
    assert server.eventually(lambda: server.metric("headrace_in_flight") == 0)
    assert server.metric("vllm:kv_cache_usage_perc") == 0


def test_choices_that_wait_for_the_first_are_not_late_if_it_is_not(start) -> None:
    server = start(step_s=0.11, max_num_batched_tokens=4)
    body = {"model": "alphabet", "prompt": "x" * 40, "n": 3, "max_tokens": 1}
    answer = server.post("/v1/completions", body, headers={"x-headrace-queue-deadline-ms": "1000"})
    assert answer.status_code == 200
    assert len(answer.json()["choices"]) == 3
