"""What an answer takes of its tenant's rates, and what of it is given back however it ends."""

from dataclasses import replace

import pytest

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Finished, Rejection, Scheduled
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.server.metering import Metering
from headrace_engine.telemetry.report import StepReport

CAPACITY = Capacity(max_num_seqs=4, max_num_batched_tokens=8, max_model_len=64, num_blocks=32, block_size=4)
RATES = Contract({"acme": Terms(requests_per_minute=10, tokens_per_minute=1000)})


def answer(*, outputs=1):
    """So many outputs of a prompt of 100 tokens, each of 50 at most."""
    leader, *others = (
        Request(f"r{number}", (1,) * 100, 50, 0.0, tenant="acme", leader="r0" if number else "")
        for number in range(outputs)
    )
    return [leader, *others]


def report(*events, rejected=()):
    snapshot = Scheduler(capacity=CAPACITY).snapshot(0.0)
    return StepReport(0.0, (), rejected, events, None, Limits.of(CAPACITY), snapshot)


def left(metering):
    told = metering.headers(RATES, "acme")
    return int(told["x-ratelimit-remaining-requests"]), int(told["x-ratelimit-remaining-tokens"])


@pytest.fixture
def metering():
    return Metering(lambda: 7.0)


def test_an_answer_is_one_request_and_its_prompt_counts_once(metering):
    assert metering.take(RATES, answer(outputs=3)) is None
    assert left(metering) == (9, 1000 - 100 - 3 * 50)


@pytest.mark.parametrize(
    ("reason", "was_scheduled", "output_tokens", "used"),
    [
        (FinishReason.STOP, True, 20, 120),
        (FinishReason.LENGTH, True, 50, 150),
        (FinishReason.ABORT, True, 3, 103),
        (FinishReason.ABORT, False, 0, 0),
        (FinishReason.EXPIRED, False, 0, 0),
        (FinishReason.ERROR, True, 0, 100),
    ],
)
def test_what_was_used_stays_taken_and_the_rest_comes_back(
    metering, reason, was_scheduled, output_tokens, used
):
    metering.take(RATES, answer())
    if was_scheduled:
        metering.observe(report(Scheduled("r0", 0.0, 0)))
    metering.observe(report(Finished("r0", reason, output_tokens=output_tokens)))
    assert left(metering) == (9, 1000 - used)


def test_an_answer_that_the_engine_refuses_was_none(metering):
    requests = answer(outputs=2)
    metering.take(RATES, requests)
    full = Rejection("queue_full_requests", "The queue is full.")
    metering.observe(report(rejected=tuple((request, full) for request in requests)))
    assert left(metering) == (10, 1000)


@pytest.mark.parametrize("replicas", [1, 5])
def test_what_is_given_back_is_what_it_is_after_replicas_came_or_went(replicas):
    metering = Metering(lambda: 7.0, replicas=2)
    before, after = (Contract(RATES.items, replicas=number) for number in (2, replicas))
    kept, given_back = answer(), [replace(request, request_id="later") for request in answer()]
    for requests in (kept, given_back):
        metering.take(before, requests)
    metering.agree(before, after)
    metering.observe(report(Finished("later", FinishReason.ABORT)))
    left_tokens = metering.headers(after, "acme")["x-ratelimit-remaining-tokens"]
    assert left_tokens == str((1000 - 2 * 150) // replicas)


def test_what_was_refused_by_its_rate_and_what_has_none_is_not_remembered(metering):
    assert metering.take(Contract({"acme": Terms(tokens_per_minute=1)}), answer()) is None
    assert metering.take(Contract({"acme": Terms(tokens_per_minute=1)}), answer()) is not None
    assert metering.take(Contract(), answer()) is None
    assert metering.headers(Contract(), "acme") == {}
    metering.observe(report(Finished("r0", FinishReason.STOP)))
    metering.observe(report(Finished("r0", FinishReason.STOP)))


def test_times_are_told_as_openai_tells_them():
    now_s = [0.0]
    metering = Metering(lambda: now_s[0])
    slow = Contract({"acme": Terms(tokens_per_minute=100)})
    assert metering.headers(slow, "acme")["x-ratelimit-reset-tokens"] == "0ms"
    metering.take(slow, answer())
    told = []
    for at_s in (0.0, 40.0, 89.5):
        now_s[0] = at_s
        told.append(metering.headers(slow, "acme")["x-ratelimit-reset-tokens"])
    assert told == ["1m30s", "50s", "500ms"]
