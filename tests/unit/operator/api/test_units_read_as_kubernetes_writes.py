"""Durations, quantities and times: what goes in, what comes out."""

from decimal import Decimal

import pytest

from headrace_operator.api.units import duration_s, duration_text, quantity, time_s, time_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("2s", 2.0), ("1m30s", 90.0), ("1.5h", 5400.0), ("0s", 0.0)],
)
def test_a_duration_is_seconds(text, seconds):
    assert duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "-1s", "1d", "1s ", "ms", "1e3s", "1s;rm"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="no duration"):
        duration_s(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0.4ms"),
        (0.041, "41ms"),
        (0.9996, "1s"),
        (1.94, "1.9s"),
        (2.0, "2s"),
        (85.4, "85s"),
        (300.0, "5m"),
    ],
)
def test_a_duration_is_written_for_people(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1000m", "1"),
        ("1Gi", "1073741824"),
        ("2", "2"),
        ("1.5", "1.5"),
        ("1024Mi", "1073741824"),
        ("1k", "1000"),
    ],
)
def test_a_quantity_is_a_number(text, number):
    assert quantity(text) == Decimal(number)


def test_what_is_no_quantity_is_none():
    assert quantity("two") is None


def test_times_survive_the_round_trip():
    assert time_s(time_text(1_800_000_000.0)) == 1_800_000_000.0
    assert time_s("2027-01-15T08:00:00") is None
    assert time_s("yesterday") is None
    assert time_s(12) is None


@pytest.mark.parametrize(
    "text",
    ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z"],
)
def test_a_time_that_could_not_be_written_back_is_none(text):
    """The API server takes it; the status that is made of it would end every reconcile."""
    assert time_s(text) is None
