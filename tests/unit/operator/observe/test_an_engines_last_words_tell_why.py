"""From the tail of a log to the one sentence that a user needs."""

import json

import pytest

from headrace_operator.observe.last_words import last_words


def line(level, message, **more):
    return json.dumps({"level": level, "message": message, **more})


LOADING = [line("info", "listening"), line("error", "cannot serve", reason="there is no model '/models/x'")]


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ([*LOADING, line("info", "exit", code=1)], "there is no model '/models/x'"),
        ([line("error", "first"), line("critical", "second")], "second"),
        (["Traceback:", "  File x", "ImportError: no torch"], "ImportError: no torch"),
        ([line("info", "listening"), "Segmentation fault"], "Segmentation fault"),
        ([line("info", "listening")], "the engine ended with exit code 3"),
        (["[1, 2]", "7", "[" * 5000], "[" * 5000),
        ([], "the engine ended with exit code 3"),
    ],
    ids=["reason", "last failure", "traceback", "fault", "no failure", "odd JSON", "silence"],
)
def test_the_line_that_tells_why_is_told(log, told):
    assert last_words({"exitCode": 3, "message": "\n".join(log)}, memory_limit=None) == told


def test_out_of_memory_is_told_with_the_limit_not_with_what_was_logged_before():
    ended = {"reason": "OOMKilled", "exitCode": 137, "message": line("info", "listening")}
    assert last_words(ended, memory_limit="2Gi") == "the engine needed more memory than its limit of 2Gi"
    assert last_words(ended, memory_limit=None) == "the engine needed more memory than its limit"
