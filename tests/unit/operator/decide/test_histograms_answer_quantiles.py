"""Quantiles and shares from cumulative buckets, as Prometheus interpolates them."""

import pytest

from headrace_operator.decide.histogram import Histogram

SEEN = Histogram(upper_edges=(0.1, 0.5, 1.0), counts=(50, 90, 98), total=100, sum=30.0)


@pytest.mark.parametrize(("q", "value"), [(0.25, 0.05), (0.5, 0.1), (0.7, 0.3), (0.95, 0.8125), (0.99, 1.0)])
def test_a_quantile_is_interpolated_inside_its_bucket(q, value):
    assert SEEN.quantile(q) == pytest.approx(value)


@pytest.mark.parametrize(("value", "share"), [(0.05, 0.25), (0.1, 0.5), (0.3, 0.7), (1.0, 0.98), (9.0, 0.98)])
def test_a_share_is_the_other_way_round(value, share):
    assert SEEN.share_at_most(value) == pytest.approx(share)


def test_nothing_seen_is_no_answer():
    empty = Histogram((0.1,), (0,), 0, 0.0)
    assert empty.quantile(0.95) is None
    assert empty.share_at_most(1.0) is None
    assert empty.mean is None
