"""Penalties, biases and bans against a reference that is written out token by token."""

from array import array

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace_engine.core.past import Past
from headrace_engine.core.plan import Row
from headrace_engine.core.sampling import Sampling, Steering
from headrace_engine.runner.next_tokens import next_tokens
from headrace_engine.runner.steering import Steered, steer

VOCABULARY = 40


def logits_of(seed, rows=1, vocabulary=VOCABULARY):
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * 4


def reference(logits, steering, prompt, output):
    """One row, the way the documentation tells it."""
    row = [float(value) for value in logits]
    allowed = steering.allowed_token_ids
    banned = set(steering.late_token_ids) if len(output) < steering.min_tokens else set()
    for *before, last in steering.bad_words:
        if output[len(output) - len(before) :] == before:
            banned.add(last)
    biases = dict(steering.logit_bias)
    for token in range(len(row)):
        if (allowed and token not in allowed) or token in banned:
            row[token] = -np.inf
        row[token] += biases.get(token, 0.0)
        if token in prompt or token in output:
            by = steering.repetition_penalty
            row[token] = row[token] / by if row[token] > 0 else row[token] * by
        row[token] -= steering.frequency_penalty * output.count(token)
        row[token] -= steering.presence_penalty * (token in output)
    return np.array(row)


def steered(logits, cases):
    changed = logits.clone()
    steer(
        changed,
        [
            Steered(row, steering, np.array(prompt, np.int64), np.array(output, np.int64))
            for row, (steering, prompt, output) in enumerate(cases)
        ],
    )
    return changed.numpy()


tokens = st.lists(st.integers(0, VOCABULARY - 1), max_size=12)
some_ids = st.lists(st.integers(0, VOCABULARY - 1), max_size=5, unique=True).map(tuple)
steerings = st.builds(
    Steering,
    repetition_penalty=st.sampled_from([1.0, 0.5, 1.3, 10.0]),
    presence_penalty=st.sampled_from([0.0, -2.0, 0.7]),
    frequency_penalty=st.sampled_from([0.0, -0.5, 1.5]),
    logit_bias=st.dictionaries(st.integers(0, VOCABULARY - 1), st.floats(-100, 100), max_size=4).map(
        lambda biases: tuple(biases.items())
    ),
    bad_words=st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=3).map(tuple)).map(
        tuple
    ),
    min_tokens=st.integers(0, 6),
    late_token_ids=some_ids,
)


@given(cases=st.lists(st.tuples(steerings, tokens, tokens), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_every_row_is_changed_as_if_it_were_alone(cases, seed):
    logits = logits_of(seed, rows=len(cases))
    changed = steered(logits, cases)
    for row, (steering, prompt, output) in enumerate(cases):
        expected = reference(logits[row], steering, prompt, output)
        np.testing.assert_allclose(changed[row], expected, rtol=1e-5, atol=1e-4)


def test_only_what_is_allowed_is_left():
    changed = steered(logits_of(1), [(Steering(allowed_token_ids=(3, 5)), [], [])])
    assert set(np.flatnonzero(np.isfinite(changed[0]))) == {3, 5}


def test_what_bans_all_that_it_allows_is_given_what_it_allows():
    steering = Steering(allowed_token_ids=(3, 5), bad_words=((3,),), min_tokens=9, late_token_ids=(5,))
    changed = steered(logits_of(1), [(steering, [], [])])
    assert set(np.flatnonzero(np.isfinite(changed[0]))) == {3, 5}
    everything = Steering(min_tokens=1, late_token_ids=tuple(range(VOCABULARY)))
    assert np.isfinite(steered(logits_of(1), [(everything, [], [])])).all()


def row(name, steering=None, *, past=None, sampled_rows=1, token_ids=(1,), start=0, **sampling):
    sampling = Sampling(steering=steering, **sampling)
    return Row(name, start, token_ids, (0,), sampled_rows, sampling, past=past)


def past(prompt, output):
    said = Past(array("q", prompt), len(prompt))
    said.extend(output)
    return said


def test_a_plain_row_is_chosen_alike_beside_a_steered_one():
    logits = logits_of(2, rows=3)
    plain = [row("a", temperature=0.8, seed=5), row("c", temperature=0)]
    alone, _ = next_tokens(logits[[0, 2]], plain)
    heavy = row("b", Steering(frequency_penalty=2.0), past=past([1, 2], [3, 3]), temperature=0.7)
    beside, _ = next_tokens(logits.clone(), [plain[0], heavy, plain[1]])
    assert {name: beside[name] for name in alone} == alone


def test_a_draft_counts_as_said_for_what_comes_after_it():
    """Three positions of one row: after the last token, after one draft, after two."""
    logits = logits_of(3, rows=3)
    steering = Steering(frequency_penalty=2.0, presence_penalty=1.0)
    drafted = row("d", steering, past=past([1], [4]), sampled_rows=3, token_ids=(4, 9, 9), temperature=0)
    chosen, _ = next_tokens(logits.clone(), [drafted])
    said = [[4], [4, 9], [4, 9, 9]]
    each = [reference(logits[at], steering, [1], output).argmax() for at, output in enumerate(said)]
    assert chosen["d"] == each


def test_log_probabilities_are_of_the_logits_before_anything_changed_them():
    logits = logits_of(4, rows=2)
    own = logits.log_softmax(-1)
    rows = [
        row("s", Steering(logit_bias=((7, 100.0),)), past=past([1], []), temperature=0, logprobs=3),
        row("p", temperature=0, logprobs=1),
    ]
    chosen, told = next_tokens(logits.clone(), rows)
    assert chosen["s"] == [7]
    (of_steered,), (of_plain,) = told["s"], told["p"]
    assert of_steered.logprob == pytest.approx(float(own[0, 7]), abs=1e-5)
    assert of_steered.rank == 1 + int((own[0] > own[0, 7]).sum())
    assert of_steered.top_ids == tuple(own[0].topk(3).indices.tolist())
    assert of_plain.top_ids == tuple(chosen["p"])
    assert of_plain.top_logprobs == pytest.approx([of_plain.logprob])


def test_half_precision_logits_are_steered_in_single():
    logits = logits_of(5).bfloat16()
    biased = row("b", Steering(logit_bias=((7, 0.001),)), past=past([1], []), temperature=0, logprobs=0)
    _, told = next_tokens(logits.clone(), [biased])
    assert told["b"][0].logprob == pytest.approx(float(logits.float().log_softmax(-1).max()), abs=1e-5)


def test_the_past_can_grow_after_a_step():
    said = past([1], [2])
    next_tokens(logits_of(6), [row("a", Steering(presence_penalty=1.0), past=said, temperature=0)])
    said.extend([3])
    assert list(said.ids) == [1, 2, 3]
