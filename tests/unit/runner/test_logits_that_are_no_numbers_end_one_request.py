"""Logits that are no numbers: their request gets no token, and the others of the step get theirs."""

import itertools
import math

import pytest
import torch

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.past import Past
from headrace_engine.core.plan import Finished, Outcome, Row, Scoring
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.sampling import Sampling, Steering
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.runner.next_tokens import next_tokens, score_prompts
from headrace_engine.runner.sampler import NO_TOKEN, Draw, sample

VOCABULARY = 1000
SAMPLINGS = {
    "greedy": Sampling(temperature=0),
    "pure": Sampling(),
    "top_k": Sampling(top_k=5),
    "top_k beyond the vocabulary": Sampling(top_k=2 * VOCABULARY),
    "top_p": Sampling(top_p=0.5),
    "min_p": Sampling(min_p=0.1),
    "all filters": Sampling(top_k=100, top_p=0.9, min_p=0.01),
}
SICK = {
    "nan everywhere": (slice(None), math.nan),
    "one nan": (7, math.nan),
    "one infinity": (VOCABULARY - 1, math.inf),
    "nothing left": (slice(None), -math.inf),
}


def sick_logits(how, rows=2):
    logits = torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(5)) * 4
    where, value = SICK[how]
    logits[0, where] = value
    return logits


@pytest.mark.parametrize("how", SICK)
@pytest.mark.parametrize(("own", "other"), list(itertools.product(SAMPLINGS, ("greedy", "pure", "top_p"))))
def test_a_sick_row_yields_no_token_and_its_neighbor_the_same_as_ever(how, own, other):
    logits, neighbor = sick_logits(how), Draw(SAMPLINGS[other], 0.3)
    token, neighbors = sample(logits, [Draw(SAMPLINGS[own], 0.9999999), neighbor])
    assert token == NO_TOKEN
    assert [neighbors] == sample(logits[1:], [neighbor])


@pytest.mark.parametrize("steering", [None, Steering(presence_penalty=1.0)])
def test_its_request_alone_is_given_nothing_log_probabilities_included(steering):
    sampling = Sampling(seed=3, logprobs=2, steering=steering)
    past = Past.of([1, 2]) if steering else None
    rows = [Row(name, 1, [2], [0], 1, sampling, past) for name in ("sick", "well")]
    sampled, logprobs = next_tokens(sick_logits("one nan"), rows)
    assert sampled["sick"] == []
    assert len(sampled["well"]) == len(logprobs["well"]) == 1
    assert 0 <= sampled["well"][0] < VOCABULARY


def test_of_drafts_those_before_the_sick_token_count():
    logits = sick_logits("one nan", rows=3).flip(0)
    sampled, _ = next_tokens(logits, [Row("drafted", 1, [2, 3, 4], [0], 3, SAMPLINGS["greedy"])])
    assert sampled == {"drafted": logits[:2].argmax(-1).tolist()}


def test_a_word_that_the_model_cannot_write_bans_nothing_of_others():
    """Tokenizers know ids that the model lacks: in flat logits they would be the first of the next row."""
    steering = Steering(bad_words=((VOCABULARY + 5,), (VOCABULARY, 3)))
    logits = torch.zeros(2, VOCABULARY)
    logits[:, 5] = 1.0
    sampling = Sampling(temperature=0, steering=steering)
    rows = [Row(name, 1, [2], [0], 1, sampling, Past.of([1, 2])) for name in ("first", "second")]
    assert next_tokens(logits, rows)[0] == {"first": [5], "second": [5]}


@pytest.mark.parametrize("how", ["nan everywhere", "one nan", "one infinity"])
def test_a_prompt_whose_scores_are_no_numbers_has_none_and_its_neighbor_has_its_own(how):
    sampling = Sampling(prompt_logprobs=1)
    rows = [Row(name, 0, [2, 3], [0], 0, sampling, None, Scoring(0, [3])) for name in ("sick", "well")]
    scores = score_prompts(sick_logits(how), lambda logits: logits.clone(), VOCABULARY, rows)
    assert list(scores) == ["well"]
    assert math.isfinite(scores["well"][0].logprob)


@pytest.mark.parametrize("max_tokens", [0, 4])
def test_a_prompt_without_scores_ends_its_request_with_an_error_and_frees_its_blocks(max_tokens):
    capacity = Capacity(4, 64, 128, 16, 16)
    scheduler = Scheduler(capacity=capacity, limits=Limits.of(capacity))
    request = Request("sick", (1, 2, 3), max_tokens, 0.0, Sampling(prompt_logprobs=1))
    assert scheduler.submit(request, 0.0) is None
    plan = scheduler.schedule(0.0)
    events = scheduler.commit(plan, Outcome({"sick": [5]} if max_tokens else {}, 0.01), 0.0)
    (ended,) = (event for event in events if isinstance(event, Finished))
    assert ended.reason is FinishReason.ERROR
    assert "no number" in ended.message
    assert scheduler.snapshot(0.0).referenced_blocks == 0
