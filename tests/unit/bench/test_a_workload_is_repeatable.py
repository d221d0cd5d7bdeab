"""Arrivals, lengths and durations: the same for the same seed, and as asked."""

from itertools import islice, pairwise
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_bench.duration import seconds, written
from headrace_bench.load import Bounds
from headrace_bench.workload import Lengths, asks, poisson_arrivals


def test_the_same_seed_gives_the_same_asks():
    lengths = Lengths(20, 5, 0.5)
    first, again = (list(islice(asks(lengths, Random(7)), 20)) for _ in range(2))
    assert first == again
    assert list(islice(asks(lengths, Random(8)), 20)) != first
    assert [ask.index for ask in first] == list(range(20))


@given(st.integers(1, 200), st.integers(1, 200), st.floats(0, 0.9), st.integers(0, 2**32))
def test_lengths_stay_within_their_spread(input_tokens, output_tokens, spread, seed):
    for ask in islice(asks(Lengths(input_tokens, output_tokens, spread), Random(seed)), 20):
        assert len(ask.prompt.split()) == ask.input_tokens
        assert abs(ask.input_tokens - input_tokens) <= spread * input_tokens + 0.5
        assert abs(ask.output_tokens - output_tokens) <= spread * output_tokens + 0.5
        assert min(ask.input_tokens, ask.output_tokens) >= 1


def test_prompts_share_no_beginning():
    beginnings = [" ".join(ask.prompt.split()[:4]) for ask in islice(asks(Lengths(30, 1), Random(0)), 200)]
    assert len(set(beginnings)) == 200


def test_arrivals_are_poisson():
    times = list(islice(poisson_arrivals(5.0, Random(0)), 4000))
    gaps = [later - earlier for earlier, later in pairwise([0.0, *times])]
    assert min(gaps) >= 0
    assert fmean(gaps) == pytest.approx(0.2, rel=0.05)
    # Of an exponential, e^-1 lies beyond its mean.
    assert fmean(gap > 0.2 for gap in gaps) == pytest.approx(0.368, abs=0.03)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Lengths(0, 1),
        lambda: Lengths(1, 1, 1.0),
        lambda: next(poisson_arrivals(0.0, Random(0))),
        Bounds,
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=r"length|ratio|rate|bounded"):
        wrong()


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [("500ms", 0.5), ("2s", 2), ("1m30s", 90), ("1.5h", 5400), ("30", 30), ("0.25", 0.25)],
)
def test_durations_are_gos(text, expected_s):
    assert seconds(text) == pytest.approx(expected_s)


@pytest.mark.parametrize("text", ["", "5 s", "-1s", "s", "1d", "1s2", "1e3"])
def test_no_duration_is_refused_with_what_to_write(text):
    with pytest.raises(ValueError, match="write 500ms"):
        seconds(text)


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (None, "-"),
        (0.0412, "41.2 ms"),
        (0.4567, "457 ms"),
        (2.345, "2.35 s"),
        (0.0, "0 ms"),
        (4321.0, "4321 s"),
    ],
)
def test_latencies_read_well(value_s, text):
    assert written(value_s) == text
