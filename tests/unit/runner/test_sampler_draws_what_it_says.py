"""The sampler's distribution, its filters, and that a row's draw knows nothing of the other rows."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace_engine.core.sampling import Sampling
from headrace_engine.runner.candidates import top_candidates
from headrace_engine.runner.chance import seed_key, uniform
from headrace_engine.runner.sampler import Draw, sample

VOCABULARY = 40_000


def logits_of(seed, rows=1, vocabulary=VOCABULARY):
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * 4


def drawn(logits, sampling, draws=20_000):
    """How often each token comes when the uniform number sweeps [0, 1) evenly: no chance in the test."""
    counts = torch.zeros(logits.shape[-1])
    for index in range(draws):
        (token,) = sample(logits, [Draw(sampling, (index + 0.5) / draws)])
        counts[token] += 1
    return counts / draws


def test_temperature_zero_takes_the_best():
    logits = logits_of(1, rows=3)
    draws = [Draw(Sampling(temperature=0), 0.99)] * 3
    assert sample(logits, draws) == logits.argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
def test_pure_temperature_follows_the_softmax(temperature):
    logits = logits_of(2, vocabulary=50)
    expected = (logits[0] / temperature).softmax(-1)
    assert (drawn(logits, Sampling(temperature=temperature), 2000) - expected).abs().max() < 1e-3


def test_top_k_keeps_the_best_k_and_renormalizes():
    logits = logits_of(3, vocabulary=200)
    best = logits[0].topk(5)
    expected = torch.zeros(200)
    expected[best.indices] = best.values.softmax(-1)
    assert (drawn(logits, Sampling(temperature=1.0, top_k=5), 2000) - expected).abs().max() < 1e-3


def test_top_p_keeps_the_smallest_set_that_reaches_p():
    logits = torch.tensor([[math.log(p) for p in (0.5, 0.2, 0.2, 0.1)]])
    counts = drawn(logits, Sampling(temperature=1.0, top_p=0.65), 2000)
    assert counts[2:].sum() == 0
    assert abs(counts[0] - 0.5 / 0.7) < 2e-3


def test_top_p_of_what_top_k_left():
    logits = torch.tensor([[math.log(p) for p in (0.4, 0.3, 0.2, 0.1)]])
    counts = drawn(logits, Sampling(temperature=1.0, top_k=2, top_p=0.6), 2000)
    assert abs(counts[0] - 0.4 / 0.7) < 2e-3
    assert counts[2:].sum() == 0


def test_min_p_keeps_what_is_likely_beside_the_likeliest():
    logits = torch.tensor([[math.log(p) for p in (0.5, 0.3, 0.15, 0.05)]])
    counts = drawn(logits, Sampling(temperature=1.0, min_p=0.29), 2000)
    assert counts[3] == 0
    assert abs(counts[0] - 0.5 / 0.95) < 2e-3


def test_top_p_is_of_what_min_p_left():
    logits = torch.tensor([[math.log(p) for p in (0.5, 0.3, 0.15, 0.05)]])
    counts = drawn(logits, Sampling(temperature=1.0, min_p=0.5, top_p=0.62), 2000)
    assert counts[2:].sum() == 0
    counts = drawn(logits, Sampling(temperature=1.0, min_p=0.5, top_p=0.63), 2000)
    assert abs(counts[0] - 0.625) < 2e-3


def test_min_p_that_leaves_more_than_the_candidates_widens():
    logits = torch.zeros(1, VOCABULARY)
    tokens = {sample(logits, [Draw(Sampling(temperature=1.0, min_p=0.5), u / 50)])[0] for u in range(50)}
    assert len(tokens) == 50


def test_a_flat_distribution_widens_beyond_the_candidates():
    logits = torch.zeros(1, VOCABULARY)
    tokens = {sample(logits, [Draw(Sampling(temperature=1.0, top_p=0.9), u / 50)])[0] for u in range(50)}
    assert len(tokens) == 50


def test_top_k_wider_than_the_candidates():
    logits = logits_of(4)
    best = set(logits[0].topk(300).indices.tolist())
    tokens = {sample(logits, [Draw(Sampling(temperature=5.0, top_k=300), u / 100)])[0] for u in range(100)}
    assert tokens <= best
    assert len(tokens) > 64


def test_top_k_beyond_the_vocabulary_keeps_all():
    logits = logits_of(5, vocabulary=10)
    wide, none = Sampling(temperature=1.0, top_k=1000), Sampling(temperature=1.0)
    assert (drawn(logits, wide, 500) - drawn(logits, none, 500)).abs().max() < 5e-3


@given(st.integers(0, 10_000), st.integers(1, 64))
def test_two_stage_candidates_are_the_exact_best(seed, count):
    values = logits_of(seed, rows=2, vocabulary=33_000 + seed)
    found = top_candidates(values, count)
    assert torch.equal(found[0], values.topk(count).values)
    assert torch.equal(values.gather(1, found[1]), found[0])


@given(st.integers(0, 10_000), st.integers(1, 64), st.sampled_from([50, 700, 9_000]))
def test_of_equal_candidates_the_lower_ids_are_taken(seed, count, vocabulary):
    values = logits_of(seed, rows=2, vocabulary=vocabulary).round()
    values[:, ::7] = -torch.inf
    best = values.sort(dim=-1, descending=True, stable=True).indices[:, :count]
    assert torch.equal(top_candidates(values, count)[1], best)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("vocabulary", [50, 9_000])
def test_what_is_no_number_is_the_best_candidate(sign, vocabulary):
    values = logits_of(3, rows=1, vocabulary=vocabulary)
    values[0, 40] = sign * torch.tensor(torch.nan)
    assert top_candidates(values, 1)[1].tolist() == [[40]]


def test_top_k_of_one_is_greedy_among_equals():
    logits = logits_of(9, rows=20, vocabulary=9_000).round()
    single = Draw(Sampling(temperature=1.0, top_k=1), 0.7)
    assert sample(logits, [single] * 20) == sample(logits, [Draw(Sampling(temperature=0), 0.0)] * 20)


def test_a_row_is_drawn_alike_alone_and_among_others():
    logits = logits_of(6, rows=7)
    draws = [
        Draw(Sampling(temperature=0), 0.0),
        Draw(Sampling(temperature=0.7), 0.31),
        Draw(Sampling(temperature=1.2, top_k=40), 0.62),
        Draw(Sampling(temperature=1.0, top_p=0.9), 0.93),
        Draw(Sampling(temperature=1.0), 0.999999999),
        Draw(Sampling(temperature=2.0, top_p=0.99, top_k=500), 0.5),
        Draw(Sampling(temperature=2.0, min_p=0.01), 0.8),
    ]
    together = sample(logits, draws)
    assert together == [sample(logits[row : row + 1], [draw])[0] for row, draw in enumerate(draws)]


def test_the_largest_uniform_never_leaves_the_vocabulary():
    logits = torch.tensor([[0.0, -200.0, -200.0]])
    for sampling in (Sampling(), Sampling(top_p=0.5), Sampling(top_k=2)):
        assert sample(logits, [Draw(sampling, 1 - 2**-53)]) == [0]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31))
def test_uniforms_lie_in_the_half_open_interval_and_repeat(seed, position):
    number = uniform(seed_key(seed), position)
    assert 0 <= number < 1
    assert number == uniform(seed_key(seed), position)


def test_uniforms_are_spread_evenly_over_positions_and_keys():
    keys = [seed_key(1), seed_key(2), seed_key(-1), seed_key(2**63 - 1)]
    for key in keys:
        numbers = [uniform(key, position) for position in range(4000)]
        cells = [sum(cell <= 10 * number < cell + 1 for number in numbers) for cell in range(10)]
        chi_square = sum((count - 400) ** 2 / 400 for count in cells)
        assert chi_square < 27.9  # 9 degrees of freedom, p = 0.001
    assert len({uniform(key, 0) for key in keys}) == len(keys)
