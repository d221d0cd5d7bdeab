"""A full queue and a missed deadline are 429 with a time to come back; both are counted by reason."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

BODY = {"model": "alphabet", "prompt": "a", "max_tokens": 20, "ignore_eos": True}


def in_background(call) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streaming"])
def test_a_full_queue_refuses_before_any_header(start, stream) -> None:
    server = start(max_num_seqs=1, max_num_queued_reqs=1)
    server.model.may_step.clear()
    others = [in_background(lambda: server.post("/v1/completions", BODY)) for _ in range(2)]
    server.eventually(lambda: server.process.service.serving().engine.num_unanswered == 2)
    answers = ThreadPoolExecutor(1).submit(server.post, "/v1/completions", BODY | {"stream": stream})
    server.eventually(lambda: server.process.service.serving().engine.num_unanswered == 3)
    server.step_on()
    refused = answers.result()
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 75
    assert 0 <= 1000 * int(refused.headers["retry-after"]) - int(refused.headers["retry-after-ms"]) < 1000
    assert refused.headers["x-headrace-reason"] == "queue_full_requests"
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "queue_full_requests")
    for other in others:
        other.join()
    assert server.metric("headrace_request_rejections_total", reason="queue_full_requests") == 1
    assert server.metric("headrace_requests_received_total") == 3


def test_a_queue_is_bounded_in_tokens_too(start) -> None:
    server = start(max_num_seqs=1, max_num_queued_tokens=10)
    server.model.may_step.clear()
    in_background(lambda: server.post("/v1/completions", BODY))
    server.eventually(lambda: server.process.service.serving().engine.num_unanswered == 1)
    answer = ThreadPoolExecutor(1).submit(server.post, "/v1/completions", BODY | {"prompt": "a" * 11})
    server.eventually(lambda: server.process.service.serving().engine.num_unanswered == 2)
    server.step_on()
    assert answer.result().headers["x-headrace-reason"] == "queue_full_tokens"


def test_a_request_that_is_not_scheduled_in_time_expires(start) -> None:
    server = start(max_num_seqs=1, queue_deadline_s=1.0, step_s=0.1)
    first = in_background(lambda: server.post("/v1/completions", BODY | {"max_tokens": 240}))
    server.eventually(lambda: len(server.model.plans) >= 1)
    late = server.post("/v1/completions", BODY)
    server.model.step_s = 0.0
    first.join()
    assert late.status_code == 429
    assert late.headers["x-headrace-reason"] == "queue_deadline"
    assert int(late.headers["retry-after"]) >= 1
    assert server.metric("headrace_request_rejections_total", reason="queue_deadline") == 1
    assert server.metric("headrace_requests_finished_total", outcome="good") == 1


def test_the_official_client_comes_back_when_it_is_told_to(start) -> None:
    server = start(max_num_seqs=1, max_num_queued_reqs=0)
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=9)
    engine = server.process.service.serving().engine
    server.model.may_step.clear()
    first = in_background(lambda: server.post("/v1/completions", BODY))
    server.eventually(lambda: engine.num_unanswered == 1)
    asked = {"model": "alphabet", "prompt": "a", "max_tokens": 2}
    answer = ThreadPoolExecutor(1).submit(client.completions.create, **asked)
    server.eventually(lambda: engine.num_unanswered == 2)
    server.step_on()
    first.join()
    assert answer.result().choices[0].text == "bc"
    assert server.metric("headrace_request_rejections_total", reason="queue_full_requests") >= 1


def test_one_prompt_of_a_batch_refused_ends_the_others(start) -> None:
    server = start(max_num_seqs=2, max_num_queued_reqs=0)
    server.model.may_step.clear()
    in_background(lambda: server.post("/v1/completions", BODY))
    server.eventually(lambda: server.process.service.serving().engine.num_unanswered == 1)
    batch = ThreadPoolExecutor(1).submit(server.post, "/v1/completions", BODY | {"prompt": ["a", "b"]})
    server.eventually(lambda: server.process.service.serving().engine.num_unanswered == 3)
    server.step_on()
    assert batch.result().status_code == 429
    server.eventually(lambda: server.metric("headrace_in_flight") == 0)
    received = server.metric("headrace_requests_received_total")
    ended = sum(
        server.metric(f"headrace_{name}_total")
        for name in ("requests_finished", "request_rejections", "requests_aborted")
    )
    assert received == ended == 3


def lower(server, **limits: int) -> None:
    active = server.process.service.serving().limits
    server.on_loop(lambda: asyncio.ensure_future(active.change(limits, "*")))
    server.eventually(lambda: active.revision == 2)


ONE_OUTPUT_MORE_THAN_WAITS = [
    ({"n": 4}, {"max_num_queued_tokens": 10}),
    ({"n": 4}, {"max_num_queued_reqs": 0, "max_num_seqs": 4}),
    ({"prompt": ["a" * 12, "b" * 12, "c"]}, {"max_num_queued_tokens": 10}),
    ({"prompt": ["a", "b", "c", "d"], "n": 2}, {"max_num_queued_reqs": 0, "max_num_queued_tokens": 0}),
]


@pytest.mark.parametrize(("asked", "bounds"), ONE_OUTPUT_MORE_THAN_WAITS)
def test_an_idle_engine_refuses_nobody_for_the_size_of_its_queue(start, asked, bounds) -> None:
    """It would be told to come back for ever."""
    server = start(**bounds)
    lower(server, max_num_seqs=2)
    answer = server.post("/v1/completions", BODY | {"prompt": "a" * 12} | asked)
    assert answer.status_code == 200
    prompts = asked.get("prompt", [""])
    assert len(answer.json()["choices"]) == len(prompts) * asked.get("n", 1)


def test_a_request_is_taken_whole_or_refused_before_it_computes_anything(start) -> None:
    """Two slots are left and none may wait: of three prompts two would have been served."""
    server = start(max_num_seqs=3, max_num_queued_reqs=0)
    server.model.may_step.clear()
    first = in_background(lambda: server.post("/v1/completions", BODY))
    engine = server.process.service.serving().engine
    server.eventually(lambda: engine.num_unanswered == 1)
    three = BODY | {"prompt": ["x", "y", "z"], "stream": True}
    refused = ThreadPoolExecutor(1).submit(server.post, "/v1/completions", three)
    server.eventually(lambda: engine.num_unanswered == 4)
    server.step_on()
    assert refused.result().status_code == 429
    first.join()
    computed = {token for plan in server.model.plans for row in plan.rows for token in row.token_ids}
    assert not computed & set(b"xyz")
    assert server.metric("headrace_requests_aborted_total") == 0


def test_an_answer_that_has_begun_misses_no_queue_deadline(start) -> None:
    """One slot, and prompts that take it by turns: the deadline is that of the first to be scheduled."""
    deadline_s = 1.0
    server = start(max_num_seqs=2, queue_deadline_s=deadline_s)
    lower(server, max_num_seqs=1)
    engine = server.process.service.serving().engine
    server.model.may_step.clear()
    asked = BODY | {"prompt": ["b" * 40, "a"], "stream": True}
    answer = ThreadPoolExecutor(1).submit(server.post, "/v1/completions", asked)
    server.eventually(lambda: engine.num_unanswered == 2)
    over_s = time.monotonic() + deadline_s
    server.eventually(lambda: time.monotonic() > over_s)
    server.model.may_step.set()
    events = answer.result().text
    assert "error" not in events
    assert events.count('"finish_reason":"length"') == 2


@pytest.mark.parametrize("asked", [{"n": 3}, {"prompt": ["X", "Y"], "n": 2}, {"prompt": ["X", "Y", "Z"]}])
def test_an_answer_of_many_outputs_that_came_too_late_never_begins(start, asked) -> None:
    """Neither do those that only waited for the first: they would be computed, shown, and then cut off."""
    server = start()
    lower(server, max_num_seqs=1)
    engine = server.process.service.serving().engine
    server.model.may_step.clear()
    first = in_background(lambda: server.post("/v1/completions", BODY | {"max_tokens": 200}))
    server.eventually(lambda: engine.num_unanswered == 1)
    late = {"headers": {"x-headrace-queue-deadline-ms": "1"}}
    body = BODY | {"prompt": ["X"], "stream": True} | asked
    answer = ThreadPoolExecutor(1).submit(server.post, "/v1/completions", body, **late)
    server.eventually(lambda: engine.num_unanswered > 1)
    server.model.may_step.set()
    refused = answer.result()
    assert (refused.status_code, refused.headers["x-headrace-reason"]) == (429, "queue_deadline")
    first.join()
    server.eventually(lambda: server.metric("headrace_in_flight") == 0)
    num_outputs = len(body["prompt"]) * body.get("n", 1)
    assert server.metric("headrace_request_rejections_total", reason="queue_deadline") == num_outputs
    computed = {token for plan in server.model.plans for row in plan.rows for token in row.token_ids}
    assert not computed & set(b"XYZ")
