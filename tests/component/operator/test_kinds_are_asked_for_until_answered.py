"""An optional kind is found out about once, and an API server that is away at that moment is waited for."""

import pytest
from aiohttp import web

from headrace_operator.kube.discovery import RETRY_S, is_served
from headrace_operator.kube.kinds import POD_MONITORS


class Answers:
    """One answer after the other; the last one stays."""

    def __init__(self, *codes: int, names: tuple[str, ...] = ("podmonitors",)) -> None:
        self.codes, self.names, self.slept_s = list(codes), names, []

    async def __call__(self, _request: web.Request) -> web.Response:
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        return web.json_response({"resources": [{"name": name} for name in self.names]}, status=code)

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)


@pytest.mark.parametrize(
    ("answers", "known"),
    [
        (Answers(200), True),
        (Answers(200, names=("servicemonitors",)), False),
        (Answers(404), False),
        (Answers(503, 401, 200), True),
    ],
    ids=["known", "another of its group", "unknown", "away at first"],
)
async def test_what_the_server_says_counts_and_silence_does_not(api_server, client, answers, known):
    api_server.fault = answers
    failures = len(answers.codes) - 1
    assert await is_served(client, POD_MONITORS, sleep=answers.sleep) is known
    assert answers.slept_s == failures * [RETRY_S]
