"""What hypothesis draws for a scheduler: requests and limits, small, with what matters often."""

import math
from typing import Any

from hypothesis import strategies as st

Choices = dict[str, tuple[Any, ...]]

REQUESTS: Choices = {
    "stem": (0, 1),
    "stem_length": (12, 0, 3, 7, 8, 16, 20),
    "tail": ((), (1,), (2, 3), (4, 1, 2, 3)),
    "max_tokens": (30, 0, 1, 2, 5, 17, 40),
    "stops": (False, False, True),
    "min_tokens": (0, 0, 7),
    "salt": (b"", b"", b"\x01"),
    "step_key": ("", "", "", "a", "b", "c"),
    "remote_tokens": (0, 0, 0, 0, 5, 20),
    "lease_s": (0.0, 0.0, 0.0, 0.0, 2.0),
    "deadline_s": (None, None, None, None, 0.5, 3.0),
    "first_token_s": (None, 0.2, 5.0),
    "priority": (0, 0, 1, 5),
    "tenant": ("", "", "flood", "quiet"),
    "follows": (False, False, True),
    "prompt_logprobs": (None, None, 0),
}
LIMITS: Choices = {
    "seqs": (8, 4, 2, 1),
    "tokens": (48, 16, 5, 1),
    "long_prefill_token_threshold": (0, 1, 3, 16),
    "max_num_partial_prefills": (0, 1, 2),
    "max_step_ms": (0, 1, 4),
    "max_step_keys": (0, 1, 2),
    "max_num_queued_reqs": (12, 4, 0),
    "max_num_queued_tokens": (200, 60, 0),
}
TERMS: Choices = {
    "weight": (1.0, 3.0),
    "max_num_seqs": (None, 1, 2),
    "max_num_queued_reqs": (None, 4, 0),
    "max_num_queued_tokens": (None, 60),
    "min_share": (0.0, 0.25, 0.9),
}
CAPACITIES: Choices = {
    "num_blocks": (*range(2, 17), 24, 32, 48, 64),
    "block_size": (2, 1, 4, 8),
    "max_num_seqs": tuple(range(1, 9)),
    "max_num_batched_tokens": (48, 1, 2, 3, 7, 16, 24),
    "max_model_len": (64, 2, 3, 17, 40, 96),
}


def num_picks(choices: Choices) -> int:
    """How many ways there are to pick one value of each."""
    return math.prod(map(len, choices.values()))


def pick(choices: Choices, number: int) -> dict[str, Any]:
    """One value of each, as the number below `num_picks` says."""
    picked = {}
    for name, values in choices.items():
        number, index = divmod(number, len(values))
        picked[name] = values[index]
    return picked


def one_of_each(choices: Choices) -> st.SearchStrategy[dict[str, Any]]:
    """One value of each, drawn as a single number, so that long histories stay cheap to draw."""
    return st.integers(0, num_picks(choices) - 1).map(lambda number: pick(choices, number))
