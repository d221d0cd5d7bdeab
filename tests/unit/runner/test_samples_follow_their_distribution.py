"""What is drawn follows the distribution that the parameters describe: chi-square against numpy.

Draws come from the generator of a real request, one for each position of a sequence.
"""

import numpy as np
import pytest
import torch

from headrace_engine.core.past import Past
from headrace_engine.core.plan import Row
from headrace_engine.core.sampling import Sampling, Steering
from headrace_engine.runner.next_tokens import next_tokens

VOCABULARY, DRAWS, BATCH = 300, 4_000, 1_000
PROMPT, OUTPUT = [1, 2, 2, 3], [5, 5, 5, 8]
MOST_IMPROBABLE = 1e-4


def distribution(logits, sampling):
    """The probability of each token, in double precision and the order that is documented."""
    row = logits.astype(np.float64)
    steering = sampling.steering or Steering()
    for token in {*PROMPT, *OUTPUT}:
        by = steering.repetition_penalty
        row[token] = row[token] / by if row[token] > 0 else row[token] * by
    for token in set(OUTPUT):
        row[token] -= steering.frequency_penalty * OUTPUT.count(token) + steering.presence_penalty
    row = row / sampling.temperature
    order = np.argsort(-row)
    shares = np.exp(row - row.max())
    kept = shares >= sampling.min_p * shares.max()
    if sampling.top_k:
        kept[order[sampling.top_k :]] = False
    shares = np.where(kept, shares, 0) / shares[kept].sum()
    before = np.cumsum(shares[order]) - shares[order]
    shares[order[before >= sampling.top_p]] = 0
    return shares / shares.sum()


def counts(logits, sampling):
    past = None
    if sampling.steering is not None:
        past = Past.of(PROMPT)
        past.extend(OUTPUT)
    drawn = np.zeros(len(logits), int)
    for first in range(0, DRAWS, BATCH):
        rows = [
            Row(str(at), at, (OUTPUT[-1],), (0,), 1, sampling, past=past)
            for at in range(first, first + BATCH)
        ]
        chosen, _ = next_tokens(torch.from_numpy(logits).repeat(BATCH, 1), rows)
        drawn += np.bincount([ids[0] for ids in chosen.values()], minlength=len(logits))
    return drawn


def chi_square_is_plausible(drawn, expected):
    """Tokens that are expected less than five times share a cell."""
    often = expected * DRAWS >= 5
    seen = [*drawn[often], drawn[~often].sum()]
    wanted = [*(expected[often] * DRAWS), max(expected[~often].sum() * DRAWS, 1e-9)]
    if wanted[-1] < 5:
        assert seen.pop() <= 5 + 5 * wanted.pop()
    statistic = sum((one - other) ** 2 / other for one, other in zip(seen, wanted, strict=True))
    freedom = torch.tensor((len(seen) - 1) / 2)
    return 1 - float(torch.special.gammainc(freedom, torch.tensor(statistic / 2))) > MOST_IMPROBABLE


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(seed=1),
        Sampling(temperature=0.6, seed=2),
        Sampling(temperature=1.7, seed=3),
        Sampling(top_k=7, seed=4),
        Sampling(top_k=150, temperature=1.5, seed=5),
        Sampling(top_p=0.8, seed=6),
        Sampling(top_p=0.97, temperature=1.4, seed=7),
        Sampling(min_p=0.1, seed=8),
        Sampling(min_p=0.002, temperature=2.0, seed=9),
        Sampling(min_p=0.05, top_k=9, top_p=0.9, temperature=1.3, seed=10),
        Sampling(steering=Steering(presence_penalty=1.5, frequency_penalty=0.5), seed=11),
        Sampling(steering=Steering(repetition_penalty=1.5), top_k=30, seed=12),
        Sampling(steering=Steering(frequency_penalty=-0.4), min_p=0.05, seed=13),
    ],
    ids=repr,
)
def test_draws_follow_the_distribution(sampling):
    generator = np.random.default_rng(sampling.seed)
    logits = generator.normal(size=VOCABULARY).astype(np.float32) * 2
    expected = distribution(logits, sampling)
    drawn = counts(logits, sampling)
    assert drawn[expected == 0].sum() == 0
    assert chi_square_is_plausible(drawn, expected)


def test_the_test_sees_a_wrong_distribution():
    logits = np.random.default_rng(0).normal(size=VOCABULARY).astype(np.float32) * 2
    drawn = counts(logits, Sampling(temperature=1.0, seed=1))
    assert not chi_square_is_plausible(drawn, distribution(logits, Sampling(temperature=1.15)))
