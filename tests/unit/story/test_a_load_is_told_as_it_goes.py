"""The table of a load, over an API that answers as the server does."""

import io

import httpx
import pytest
from rich.console import Console

from headrace_local.story.api import Api
from headrace_local.story.narrator import Narrator
from headrace_local.story.service import ServiceView
from headrace_local.story.stage import Stage
from headrace_local.story.timeline import Timeline

WAITING = "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 3.0\n"
STATUS = {"status": {"readyReplicas": 1, "desiredReplicas": 1}}


class Crowd:
    users, now_s, records = 4, 0.0, ()


def answer(request: httpx.Request) -> httpx.Response:
    path = request.url.path
    if path.endswith("/pods"):
        serving = {"metadata": {"name": "serving"}}
        leaving = {"metadata": {"name": "leaving", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        return httpx.Response(200, json={"items": [serving, leaving]})
    if path.endswith("/metrics"):
        assert "/pods/serving:" in path, "a pod that is being removed was asked"
        return httpx.Response(200, text=WAITING)
    return httpx.Response(200, json=STATUS)


@pytest.fixture
def out():
    return io.StringIO()


def test_only_pods_that_stay_are_asked_for_their_queues(out):
    narrator = Narrator(Console(file=out, width=200), lambda: 0.0)
    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://api") as http:
        stage = Stage(venue=None, api=Api(http), narrator=narrator, clock=lambda: 1.0)
        Timeline(stage, Crowd(), ServiceView.of(STATUS)).look()
    users, waiting = out.getvalue().splitlines()[-1].split()[2:4]
    assert (users, waiting) == ("4", "3")
