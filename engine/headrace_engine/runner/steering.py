"""Changes the logits of those rows that are steered, in place: bans, biases, penalties.

Rows are taken together, as lists of places in the flat logits; what was said before is read where it stands.
So a step costs what the steered rows have said, and nothing is kept between steps: no counts of a request,
and nothing to build up again after a preemption.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace_engine.core.sampling import Steering

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Steered:
    """One row of logits, and what its next token is chosen by."""

    row: int
    steering: Steering
    prompt_ids: Ids
    output_ids: Ids


def steer(logits: Tensor, targets: Sequence[Steered]) -> None:
    """Changes `logits` [rows, vocabulary], contiguous float32, in the order that `Steering` documents."""
    width = logits.shape[-1]
    for target in targets:
        if target.steering.allowed_token_ids:
            _allow(logits[target.row], target.steering.allowed_token_ids)
    flat = logits.view(-1)
    _ban(flat, _places(targets, width, lambda target: _banned(target, width))[0])
    _bias(flat, targets, width)
    _penalize(flat, [target for target in targets if _is_penalized(target.steering)], width)


def _allow(row: Tensor, allowed: Sequence[int]) -> None:
    index = torch.tensor(allowed, device=row.device)
    kept = row[index]
    row.fill_(-torch.inf)
    row[index] = kept


def _banned(target: Steered, width: int) -> list[int]:
    """A request that bans all that it allows is given what it allows: something has to be chosen. A word may
    be written with ids that the tokenizer has and the model lacks.
    """
    steering, output_ids = target.steering, target.output_ids
    banned = list(steering.late_token_ids) if len(output_ids) < steering.min_tokens else []
    words = steering.bad_words
    banned += [last for *before, last in words if last < width and _ends_with(output_ids, before)]
    allowed = steering.allowed_token_ids
    chooses = bool(set(allowed).difference(banned)) if allowed else len(set(banned)) < width
    return banned if chooses else []


def _ends_with(ids: Ids, tail: list[int]) -> bool:
    return not tail or ids[-len(tail) :].tolist() == tail


def _ban(flat: Tensor, places: Ids) -> None:
    if len(places):
        flat.index_fill_(0, torch.from_numpy(places).to(flat.device), -torch.inf)


def _bias(flat: Tensor, targets: Sequence[Steered], width: int) -> None:
    places, _ = _places(targets, width, lambda target: [index for index, _ in target.steering.logit_bias])
    if len(places):
        added = [value for target in targets for _, value in target.steering.logit_bias]
        bias = torch.tensor(added, dtype=flat.dtype, device=flat.device)
        flat.index_add_(0, torch.from_numpy(places).to(flat.device), bias)


def _is_penalized(steering: Steering) -> bool:
    penalties = (steering.repetition_penalty, steering.presence_penalty, steering.frequency_penalty)
    return penalties != (1.0, 0.0, 0.0)


def _penalize(flat: Tensor, targets: Sequence[Steered], width: int) -> None:
    if not targets:
        return
    said = _places(targets, width, lambda target: np.concatenate((target.prompt_ids, target.output_ids)))
    _repeat(flat, *said, [target.steering.repetition_penalty for target in targets])
    output, lengths = _places(targets, width, lambda target: target.output_ids)
    if not len(output):
        return
    index = torch.from_numpy(output).to(flat.device)
    frequency = [target.steering.frequency_penalty for target in targets]
    flat.index_add_(0, index, -_spread(frequency, lengths, flat))
    presence = [target.steering.presence_penalty for target in targets]
    # The same value is written for each time that a token was said.
    flat.index_copy_(0, index, flat[index] - _spread(presence, lengths, flat))


def _places(
    targets: Sequence[Steered], width: int, of: Callable[[Steered], Sequence[int] | Ids]
) -> tuple[Ids, list[int]]:
    """Where the given ids of all targets stand in the flat logits, and how many each has."""
    parts = [np.asarray(of(target), np.int64) + target.row * width for target in targets]
    return np.concatenate(parts), [len(part) for part in parts]


def _repeat(flat: Tensor, said: Ids, lengths: list[int], penalties: list[float]) -> None:
    if all(penalty == 1 for penalty in penalties):
        return
    index = torch.from_numpy(said).to(flat.device)
    penalty, logits = _spread(penalties, lengths, flat), flat[index]
    flat.index_copy_(0, index, torch.where(logits > 0, logits / penalty, logits * penalty))


def _spread(values: list[float], lengths: list[int], like: Tensor) -> Tensor:
    """Each value as often as its target has places."""
    spread = torch.tensor(values, dtype=like.dtype).repeat_interleave(torch.tensor(lengths))
    return spread.to(like.device)
