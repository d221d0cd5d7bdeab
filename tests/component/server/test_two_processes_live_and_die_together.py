"""HTTP and its engine core, as `headrace serve` starts them: whichever is killed or stopped, clients are
told, and no half of an engine is left behind.
"""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from eventually import eventually
from tests.served_engine import ASKED, FOR_LONG, Served, is_running


@pytest.fixture
def served(tiny_model_dir) -> Iterator[Served]:
    server = Served(tiny_model_dir)
    yield server
    if server.http.poll() is None:
        server.http.send_signal(signal.SIGCONT)
        server.http.kill()
        server.http.wait()


def test_a_killed_core_is_told_to_every_client_and_ends_the_process(served) -> None:
    eventually(lambda: served.told("ready"))
    core, stream = served.core_pid(), iter(served.stream())
    next(stream)
    os.kill(core, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as another:
        whole = another.submit(httpx.post, served.url + "/completions", json=ASKED | FOR_LONG, timeout=60)
        assert served.get("/livez").status_code == 200
        assert "headrace_core_process_resident_memory_bytes" in served.get("/metrics").text
        os.kill(core, signal.SIGKILL)
        with pytest.raises(openai.APIError, match=r"restarting.*\(request [0-9a-f]{32}\)"):
            list(stream)
        assert whole.result().json()["error"]["code"] in {"internal_error", "restarting"}
        assert "restarting" in whole.result().text
        assert whole.result().headers["x-request-id"]
    assert served.ended() == 1
    assert "SIGKILL" in served.told("the engine core is gone")["reason"]


def test_a_core_that_is_killed_while_it_loads_is_named_as_the_reason(served) -> None:
    os.kill(served.core_pid(), signal.SIGKILL)
    assert served.ended() == 1
    assert served.told("ready") is None
    assert "memory" in served.told("the engine core is gone")["reason"]


def test_without_http_nothing_is_left_running(served) -> None:
    eventually(lambda: served.told("ready"))
    core = served.core_pid()
    stream = iter(served.stream())
    next(stream)
    served.http.kill()
    eventually(lambda: not is_running(core))


def test_http_may_stand_still_while_streams_run(served) -> None:
    """Nothing is lost, nothing is cut off, and the core is not taken for a stuck one."""
    eventually(lambda: served.told("ready"))
    streams = [iter(served.stream()) for _ in range(4)]
    firsts = [next(stream) for stream in streams]
    served.http.send_signal(signal.SIGSTOP)
    time.sleep(0.05)
    served.http.send_signal(signal.SIGCONT)
    answers = [[first, *stream] for first, stream in zip(firsts, streams, strict=True)]
    assert {answer[-1].choices[0].finish_reason for answer in answers} == {"length"}
    assert len({"".join(chunk.choices[0].text for chunk in answer) for answer in answers}) == 1
    assert served.get("/livez").status_code == 200
