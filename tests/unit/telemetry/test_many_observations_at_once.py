"""`observe_many` is `observe`, many times."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from headrace_engine.telemetry.buckets import FINE_S
from headrace_engine.telemetry.histogram import StepHistogram

amounts = st.one_of(st.sampled_from(FINE_S), st.floats(0, 100))


@given(st.lists(st.tuples(amounts, st.integers(1, 300)), max_size=8))
def test_many_at_once_are_many(observations) -> None:
    one, many = CollectorRegistry(), CollectorRegistry()
    by_one = Histogram("gap", "Gaps.", ["m"], registry=one, buckets=FINE_S).labels("a")
    at_once = StepHistogram("gap", "Gaps.", ["m"], registry=many, buckets=FINE_S).labels("a")
    for amount, count in observations:
        at_once.observe_many(amount, count)
        for _ in range(count):
            by_one.observe(amount)
    for sample in next(iter(one.collect())).samples:
        if sample.name.endswith(("_bucket", "_count")):
            assert many.get_sample_value(sample.name, sample.labels) == sample.value
    total = sum(amount * count for amount, count in observations)
    assert abs(many.get_sample_value("gap_sum", {"m": "a"}) - total) <= 1e-9 * max(1, total)
