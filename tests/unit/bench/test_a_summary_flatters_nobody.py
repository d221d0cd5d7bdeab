"""Latencies, goodput and attainment from records whose answer is known by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_bench.record import Outcome, Record
from headrace_bench.summary import Objectives, percentile, summarize


def answer(*times_s, sent_s=0.0, ended_s=None, tokens="each", outcome=Outcome.OK, **more):
    """A request that saw a chunk at each time; one token in each unless `tokens` says otherwise."""
    output_tokens = len(times_s) if tokens == "each" else tokens
    ended_s = times_s[-1] if ended_s is None else ended_s
    return Record(
        0,
        sent_s,
        sent_s,
        ended_s,
        outcome,
        token_times_s=times_s,
        output_tokens=output_tokens,
        prompt_tokens=10,
        **more,
    )


def refused(outcome=Outcome.REJECTED):
    return Record(0, 0.0, 0.0, 0.1, outcome, "429: busy", 429)


def test_the_latencies_are_the_definitions():
    record = answer(1.0, 1.5, 2.5, sent_s=0.5)
    assert record.ttft_s == 0.5
    assert record.itls_s == (0.5, 1.0)
    assert record.e2el_s == 2.0
    assert record.tpot_s == 0.75


def test_tokens_bundled_in_one_chunk_count_once_in_itl_and_each_in_tpot():
    record = answer(1.0, 3.0, tokens=5)
    assert record.itls_s == (2.0,)
    assert record.tpot_s == 0.5


def test_a_one_token_answer_has_no_tpot_and_is_told_of():
    summary = summarize([answer(0.2), answer(0.2, 0.3)], 1.0, Objectives(ttft_s=1.0, itl_s=0.15))
    assert summary.one_token == 1
    assert summary.tpot.count == 1
    assert summary.good == 2


def test_without_usage_the_gaps_stand_in_for_itl_and_the_tokens_are_unknown():
    slow = answer(0.1, 0.9, tokens=None)
    summary = summarize([slow], 1.0, Objectives(itl_s=0.5))
    assert (summary.good, summary.unknown_usage, summary.output_tokens, summary.tpot) == (0, 1, 0, None)


def test_a_good_request_meets_every_objective_given():
    fast = answer(0.4, 0.45, 0.5)
    late_start = answer(0.6, 0.65, 0.7)
    slow_tokens = answer(0.4, 0.6, 0.8)
    summary = summarize([fast, late_start, slow_tokens], 2.0, Objectives(ttft_s=0.5, itl_s=0.1))
    assert (summary.good, summary.goodput_per_s) == (1, 0.5)
    assert summary.attainment_ratio == pytest.approx(1 / 3)


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.FAILED, Outcome.BROKEN])
def test_what_was_not_answered_stays_in_the_denominator_and_out_of_the_latencies(outcome):
    summary = summarize([answer(0.1, 0.2), refused(outcome)], 1.0, Objectives(ttft_s=9.0))
    assert (summary.requests, summary.ok, summary.good, summary.attainment_ratio) == (2, 1, 1, 0.5)
    assert summary.ttft.count == 1


def test_without_objectives_nothing_is_called_good():
    summary = summarize([answer(0.1)], 1.0)
    assert (summary.good, summary.goodput_per_s, summary.attainment_ratio) == (None, None, None)


def test_nothing_sent_is_no_rate_and_no_latency_rather_than_zero():
    summary = summarize([], 0.0, Objectives(ttft_s=1.0))
    assert (summary.ttft, summary.request_throughput_per_s, summary.attainment_ratio) == (None, None, None)


def test_the_clients_own_lag_is_told():
    late = Record(0, 1.0, 1.4, 2.0, Outcome.OK, token_times_s=(2.0,), output_tokens=1)
    assert summarize([late], 1.0).send_lag_max_s == pytest.approx(0.4)


def test_percentiles_interpolate_between_ranks():
    assert percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.5
    assert percentile([7.0], 99) == 7.0


@given(
    samples=st.lists(st.floats(0, 1e6), min_size=1, max_size=50).map(sorted),
    percents=st.tuples(st.floats(0, 100), st.floats(0, 100)).map(sorted),
)
def test_percentiles_grow_and_stay_within_the_samples(samples, percents):
    low, high = (percentile(samples, percent) for percent in percents)
    slack = 1e-6 * samples[-1]
    assert samples[0] - slack <= low <= high + slack <= samples[-1] + 2 * slack
