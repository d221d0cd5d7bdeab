"""What cannot be is refused at once, what is short is waited for, and probes are answered meanwhile."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

TEXT = {"model": "alphabet", "prompt": "a", "max_tokens": 3}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_request_that_never_fits_the_cache_is_refused_and_not_tried_for_ever(start, stream) -> None:
    """Within the model's context and beyond all blocks together: elsewhere it went round the queue for ever,
    with everybody behind it.
    """
    server = start(num_blocks=8, max_model_len=256)
    refused = server.post("/v1/completions", TEXT | {"prompt": "a" * 100, "stream": stream})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt")
    assert server.post("/v1/completions", TEXT).status_code == 200
    assert server.metric("headrace_request_rejections_total", reason="never_fits") == 1


def test_a_cache_for_one_serves_many_one_after_the_other(start) -> None:
    """Elsewhere a full cache was an assertion, or an exception that ended the server."""
    server = start(num_blocks=3, max_model_len=12)
    body = TEXT | {"prompt": "abcd", "max_tokens": 8, "ignore_eos": True}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: server.post("/v1/completions", body), range(8)))
    assert {answer.json()["choices"][0]["text"] for answer in answers} == {"efghijkl"}
    assert server.metric("vllm:kv_cache_usage_perc") == 0


def test_probes_are_answered_while_a_step_takes_long(start) -> None:
    """Elsewhere a probe asked the engine for a token, and a busy engine was killed for being late."""
    server = start()
    server.model.may_step.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.post, "/v1/completions", TEXT)
        server.eventually(lambda: server.process.service.serving().engine.num_unanswered == 1)
        for path in ("/livez", "/readyz", "/health", "/metrics"):
            began_s = time.process_time()
            assert server.http.get(server.url + path).status_code == 200
            assert time.process_time() - began_s < 0.25
        assert not waiting.done()
        server.model.may_step.set()
        assert waiting.result().status_code == 200
