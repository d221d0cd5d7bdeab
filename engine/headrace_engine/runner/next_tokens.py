"""From the logits of a plan's rows to what is chosen after each, and how likely it was.

A row that asks for nothing but a temperature and filters costs a look at two of its fields. Log probabilities
are the model's own: the logits of a row that is both scored and steered are set aside before they change.
Nothing is chosen after a token whose logits are no numbers, and its request ends for it alone.
"""

from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from math import isnan

import numpy as np
from torch import Tensor

from headrace_engine.core.past import Past
from headrace_engine.core.plan import Row
from headrace_engine.core.sampling import Steering, TokenLogprobs
from headrace_engine.runner.chance import seed_key, uniform
from headrace_engine.runner.logprobs import successor_logprobs, token_logprobs
from headrace_engine.runner.sampler import NO_TOKEN, Draw, sample
from headrace_engine.runner.steering import Steered, steer

Scores = dict[str, Sequence[TokenLogprobs]]
Span = tuple[Row, range]
"""A row that samples, and where its tokens stand among all that are sampled."""


def next_tokens(logits: Tensor, rows: Sequence[Row]) -> tuple[dict[str, list[int]], Scores]:
    """The ids sampled after each row that samples, and their log probabilities where they are wanted.

    `logits` [sampled tokens, vocabulary] are those of all rows, one after another; they are overwritten.
    """
    spans = _spans(rows)
    scored = [span for span in spans if span[0].sampling.logprobs is not None]
    steered = [span for span in spans if span[0].past is not None]
    if not steered:
        tokens = sample(logits, _draws(spans))
        return _by_request(spans, tokens), _scores(logits, _places(scored), scored, tokens)
    logits = logits.float()
    both = [span for span in scored if span[0].past is not None]
    aside = logits[_places(both)]
    steer(logits, [target for row, places in steered for target in _targets(row, places)])
    tokens = sample(logits, _draws(spans))
    others = [span for span in scored if span[0].past is None]
    scores = _scores(logits, _places(others), others, tokens)
    return _by_request(spans, tokens), scores | _scores(aside, range(len(aside)), both, tokens)


def score_prompts(
    hidden: Tensor, head: Callable[[Tensor], Tensor], vocab_size: int, rows: Sequence[Row]
) -> Scores:
    """How likely the prompt's own next tokens were, for the rows that want it; `hidden` is theirs alone.

    Nothing of a row where one of its scores is no number.
    """
    scores: Scores = {}
    at = 0
    for row in rows:
        if row.scoring is not None:
            ids = row.scoring.successors
            mine = hidden[at : at + len(ids)]
            at += len(ids)
            num_top = row.sampling.prompt_logprobs or 0
            told = successor_logprobs(mine, head, vocab_size, ids, num_top)
            if not any(isnan(each.logprob) for each in told):
                scores[row.request_id] = told
    return scores


def _spans(rows: Sequence[Row]) -> list[Span]:
    spans, at = [], 0
    for row in rows:
        if row.sampled_rows:
            spans.append((row, range(at, at + row.sampled_rows)))
            at += row.sampled_rows
    return spans


def _places(spans: Sequence[Span]) -> list[int]:
    return [place for _, places in spans for place in places]


def _by_request(spans: Sequence[Span], tokens: Sequence[int]) -> dict[str, list[int]]:
    chosen = {row.request_id: list(tokens[places.start : places.stop]) for row, places in spans}
    if NO_TOKEN not in tokens:
        return chosen
    return {name: list(takewhile(NO_TOKEN.__ne__, ids)) for name, ids in chosen.items()}


def _draws(spans: Sequence[Span]) -> list[Draw]:
    return [draw for row, _ in spans for draw in _draws_of(row)]


def _draws_of(row: Row) -> list[Draw]:
    sampling = row.sampling
    if sampling.temperature == 0:
        return [Draw(sampling, 0.0)] * row.sampled_rows
    key, end = seed_key(sampling.seed), row.start + len(row.token_ids)
    return [Draw(sampling, uniform(key, p)) for p in range(end - row.sampled_rows + 1, end + 1)]


def _scores(logits: Tensor, at: Sequence[int], spans: Sequence[Span], tokens: Sequence[int]) -> Scores:
    """Of the tokens of `spans`, whose logits are the rows `at`."""
    if not spans:
        return {}
    num_tops = [row.sampling.logprobs or 0 for row, places in spans for _ in places]
    token_ids = [max(0, tokens[place]) for place in _places(spans)]
    told = iter(token_logprobs(logits, at, token_ids, num_tops))
    return {row.request_id: list(islice(told, len(places))) for row, places in spans}


def _targets(row: Row, places: range) -> list[Steered]:
    past, steering = row.past, row.sampling.steering
    assert past is not None
    assert steering is not None
    drafts = row.token_ids[len(row.token_ids) - row.sampled_rows + 1 :]
    return [_target(place, steering, past, drafts[:count]) for count, place in enumerate(places)]


def _target(row: int, steering: Steering, past: Past, drafts: Sequence[int]) -> Steered:
    ids = np.array(past.ids, np.int64)
    output = np.concatenate((ids[past.num_prompt_tokens :], np.asarray(drafts, np.int64)))
    return Steered(row, steering, ids[: past.num_prompt_tokens], output)
