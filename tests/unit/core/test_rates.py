"""Rates of tenants: what is let through, when the rest may come back, and what is given back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.limits import LimitsError
from headrace_engine.core.rates import Metered, Rates

REQUESTS = Contract({"acme": Terms(requests_per_minute=6)})
TOKENS = Contract({"acme": Terms(tokens_per_minute=600)})


def let_through(rates, contract, times_s, tokens=1):
    return [rates.take(contract, "acme", tokens, now_s) is None for now_s in times_s]


def test_a_minutes_worth_at_once_and_then_at_the_rate():
    assert let_through(Rates(), REQUESTS, [0.0] * 7) == [True] * 6 + [False]
    rates = Rates()
    let_through(rates, REQUESTS, [0.0] * 6)
    assert let_through(rates, REQUESTS, [9.9, 10.0, 10.0, 20.0]) == [False, True, False, True]


def test_the_refusal_names_the_rate_and_when_the_request_will_do():
    rates = Rates()
    let_through(rates, REQUESTS, [0.0] * 6)
    refused = rates.take(REQUESTS, "acme", 1, 4.0)
    assert (refused.reason, refused.is_exact) == ("tenant_requests_per_minute", True)
    assert refused.retry_after_s == pytest.approx(6.0)
    assert refused.message == "This tenant may have 6 requests a minute. Try again in 6 seconds."


def test_of_two_rates_the_one_that_takes_longer_is_named_and_nothing_is_taken_of_the_other():
    both = Contract({"acme": Terms(requests_per_minute=1, tokens_per_minute=60)})
    rates = Rates()
    assert rates.take(both, "acme", 60, 0.0) is None
    assert rates.take(both, "acme", 30, 5.0).reason == "tenant_requests_per_minute"
    assert rates.take(both, "acme", 60, 60.0) is None
    rates.settle("acme", requests=1)
    refused = rates.take(both, "acme", 30, 60.0)
    assert (refused.reason, refused.retry_after_s) == ("tenant_tokens_per_minute", 30.0)
    requests, tokens = rates.allowances(both, "acme", 60.0)
    assert (requests.remaining, tokens.remaining) == (1.0, 0.0)


def test_what_is_larger_than_a_minutes_worth_waits_for_a_full_bucket_and_is_paid_for_afterwards():
    rates = Rates()
    assert rates.take(TOKENS, "acme", 100, 0.0) is None
    assert rates.take(TOKENS, "acme", 1800, 0.0).retry_after_s == 10.0
    assert rates.take(TOKENS, "acme", 1800, 10.0) is None
    assert rates.take(TOKENS, "acme", 1, 10.0).retry_after_s == pytest.approx(120.1)


def test_a_long_time_is_told_in_figures():
    rates = Rates()
    rates.take(TOKENS, "acme", 10**8, 0.0)
    assert "Try again in 9999940.1 seconds." in rates.take(TOKENS, "acme", 1, 0.0).message


def test_what_is_given_back_is_there_at_once():
    rates = Rates()
    rates.take(TOKENS, "acme", 600, 0.0)
    rates.settle("acme", tokens=500)
    assert rates.take(TOKENS, "acme", 500, 0.0) is None
    rates.settle("acme", tokens=9_999)
    [left] = rates.allowances(TOKENS, "acme", 0.0)
    assert (left.of, left.per_minute, left.remaining, left.reset_s) == (Metered.TOKENS, 600, 600, 0)


def test_each_replica_lets_its_part_through_and_one_a_minute_in_any_case():
    of_three = Contract({"acme": Terms(requests_per_minute=6)}, replicas=3)
    rates = Rates()
    assert let_through(rates, of_three, [0.0] * 3) == [True, True, False]
    assert rates.take(of_three, "acme", 1, 0.0).message == (
        "This tenant may have 6 requests a minute, over 3 replicas. Try again in 30 seconds."
    )
    crowded = Contract({"acme": Terms(requests_per_minute=6)}, replicas=100)
    assert let_through(Rates(), crowded, [0.0, 30.0, 60.0]) == [True, False, True]


def test_a_changed_rate_holds_for_what_was_taken_before():
    rates = Rates()
    let_through(rates, REQUESTS, [0.0] * 6)
    faster = Contract({"acme": Terms(requests_per_minute=12)})
    assert let_through(rates, faster, [0.0] * 7) == [True] * 6 + [False]
    assert let_through(rates, Contract(), [0.0] * 50) == [True] * 50


def test_until_a_rate_changes_what_was_taken_flows_back_as_it_did():
    rates = Rates()
    let_through(rates, REQUESTS, [0.0] * 6)
    slower = Contract({"acme": Terms(requests_per_minute=1)})
    rates.agree(REQUESTS, slower, 50.0)
    assert rates.take(slower, "acme", 1, 50.0).retry_after_s == pytest.approx(60.0)
    assert let_through(rates, slower, [109.9, 110.0]) == [False, True]


@pytest.mark.parametrize("replicas", [1, 2, 3, 6])
def test_who_has_used_up_its_rate_waits_for_no_longer_when_replicas_come_or_go(replicas):
    two, other = (Contract(TOKENS.items, replicas=number) for number in (2, replicas))
    rates = Rates()
    rates.take(two, "acme", 300, 0.0)
    rates.agree(two, other, 0.0)
    [left] = rates.allowances(other, "acme", 0.0)
    assert (left.remaining, left.reset_s) == (0.0, 60.0)
    assert rates.take(other, "acme", 10, 0.0).retry_after_s == pytest.approx(replicas)


def test_tenants_with_full_buckets_are_forgotten():
    crowd = Contract(default=Terms(requests_per_minute=60))
    rates = Rates()
    for number in range(20_000):
        assert rates.take(crowd, f"t{number}", 1, 0.01 * number) is None
    assert len(rates) <= 2 * Rates._LEAST_SWEPT


arrivals = st.lists(
    st.tuples(st.floats(0, 90), st.integers(1, 900), st.floats(0, 1)), min_size=1, max_size=40
)
"""Seconds since the one before, tokens, and the part of them that is given back at once."""


@given(st.integers(1, 5_000), st.integers(1, 8), arrivals)
def test_no_stretch_has_more_than_its_minutes_and_who_waits_as_told_is_taken(rate, replicas, arrivals):
    contract = Contract({"acme": Terms(tokens_per_minute=rate)}, replicas=replicas)
    part, now_s, rates = contract.part_of(rate), 0.0, Rates()
    taken: list[tuple[float, float]] = []
    for after_s, tokens, unused in arrivals:
        now_s += after_s
        refused = rates.take(contract, "acme", tokens, now_s)
        if refused is not None:
            assert rates.take(contract, "acme", tokens, now_s).retry_after_s == pytest.approx(
                refused.retry_after_s
            )
            now_s += refused.retry_after_s
            assert rates.take(contract, "acme", tokens, now_s) is None
        rates.settle("acme", tokens=int(unused * tokens))
        taken.append((now_s, tokens - int(unused * tokens)))
    for start, (start_s, _) in enumerate(taken):
        used = sum(tokens for _, tokens in taken[start:-1])
        assert used <= part * (1 + (taken[-1][0] - start_s) / 60) * (1 + 1e-9) + 900


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 90), st.integers(0, 500)), min_size=1, max_size=30))
def test_through_all_changes_of_replicas_what_is_left_is_what_flowed_back(stretches):
    """For so long there are so many replicas, and at the end of it something is taken."""
    rates, now_s, taken, before = Rates(), 0.0, 0.0, TOKENS
    for replicas, stretch_s, tokens in stretches:
        contract = Contract(TOKENS.items, replicas=replicas)
        rates.agree(before, contract, now_s)
        taken *= before.replicas / replicas
        now_s, before = now_s + stretch_s, contract
        taken = max(0.0, taken - contract.part_of(600) * stretch_s / 60)
        [left] = rates.allowances(contract, "acme", now_s)
        assert left.remaining == pytest.approx(max(0.0, left.per_minute - taken), abs=1e-6)
        if rates.take(contract, "acme", tokens, now_s) is None:
            taken += tokens


@pytest.mark.parametrize("rate", ["requests_per_minute", "tokens_per_minute"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", 2**31])
def test_a_rate_is_a_whole_number(rate, value):
    with pytest.raises(LimitsError, match=rf"tenants.items.acme.{rate}: takes an integer from 1 on"):
        Contract().changed({"items": {"acme": {rate: value}}})


@pytest.mark.parametrize("replicas", [0, -1, 1.0, True, None, 1001])
def test_replicas_are_counted(replicas):
    with pytest.raises(LimitsError, match=r"tenants.replicas: takes an integer from 1 to 1000"):
        Contract().changed({"replicas": replicas})
