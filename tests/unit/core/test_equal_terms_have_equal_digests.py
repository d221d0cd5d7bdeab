"""A number by which somebody who only reads metrics knows whose terms an engine holds."""

from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from headrace_engine.core.contract import Contract, Terms

bounds = st.none() | st.integers(1, 4)
terms = st.builds(Terms, st.sampled_from([1, 1.0, 2, 0.5]), bounds, bounds, bounds, tokens_per_minute=bounds)
contracts = st.builds(
    Contract, st.dictionaries(st.sampled_from(["a", "b", "default"]), terms), terms, st.integers(1, 2)
)


@given(contracts, contracts)
def test_digests_tell_terms_apart(one, other):
    assert (one.digest == other.digest) == (one == other)


@given(contracts)
def test_it_is_the_same_after_a_round_through_json_and_a_float(one):
    assert Contract().changed(asdict(one)).digest == one.digest == int(float(one.digest))
