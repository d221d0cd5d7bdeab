"""LangChain's and LlamaIndex's clients for servers like OpenAI's stream through ours, blocking and not."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from clients import installed

WHOLE = {"text": "abcde", "finish_reason": "length", "usage": [11, 5, 16]}
STREAMED = WHOLE | {"streamed": True}
EXPECTED = {
    "LangChain chat": WHOLE,
    "LangChain chat stream": STREAMED,
    "LangChain chat async": WHOLE,
    "LangChain chat async stream": STREAMED,
    "LangChain chat batch": {"texts": ["abcde"] * 3},
    "LangChain chat logprobs": {"logprobs": [["a", -0.25], ["b", -0.25]]},
    "LangChain chat logprobs stream": {"logprobs": [["a", -0.25], ["b", -0.25]]},
    "LangChain chat stops": {"text": "ab", "finish_reason": "stop", "usage": [11, 4, 15]},
    "LangChain completion": {"text": "bcdef"},
    "LangChain completion stream": {"text": "bcdef", "streamed": True},
    "LlamaIndex chat": WHOLE,
    "LlamaIndex chat stream": {"text": "abcde", "streamed": True},
    "LlamaIndex chat async": {"text": "abcde"},
    "LlamaIndex chat async stream": {"text": "abcde", "streamed": True},
    "LlamaIndex completion": {"text": "bcdef"},
    "LlamaIndex completion stream": {"text": "bcdef", "streamed": True},
}
NOBODY = "http://127.0.0.1:9"
"""Whatever goes to the network goes there, and fails."""


@pytest.fixture(scope="module")
def seen(run_server) -> dict[str, Any]:
    try:
        python = installed.frameworks_python()
    except installed.NotInstalledError as missing:
        installed.leave_out(missing)
    server = run_server(step_s=0.01)
    command = [str(python), str(Path(installed.__file__).parent / "frameworks.py"), server.url]
    offline = {"HTTPS_PROXY": NOBODY, "HTTP_PROXY": NOBODY, "NO_PROXY": "127.0.0.1"}
    ran = subprocess.run(
        command, env=os.environ | offline, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return {line["case"]: line["saw"] for line in map(json.loads, ran.stdout.splitlines())}


@pytest.mark.parametrize("case", EXPECTED)
def test_a_frameworks_client_sees_what_it_expects(seen, case) -> None:
    assert seen[case] == EXPECTED[case]


def test_every_question_of_the_frameworks_is_judged(seen) -> None:
    assert seen.keys() == EXPECTED.keys()
