"""Bodies of up to 8 MiB made by chance, of what makes parsers, validators and tokenizers slow or large.

`HEADRACE_HOSTILE_BODIES=5000` tries more than every run does.
"""

import os
import random

import pytest
from hostile_bodies import request

NUM_BODIES = int(os.environ.get("HEADRACE_HOSTILE_BODIES", "40"))
BODIES_A_TEST = 8


@pytest.mark.parametrize("seed", range(-(-NUM_BODIES // BODIES_A_TEST)))
def test_it_stalls_nobody_and_takes_little(target, seed) -> None:
    chance = random.Random(seed)
    answers = target.unharmed(*(request(chance) for _ in range(BODIES_A_TEST)))
    assert {answer.status for answer in answers} <= {200, 400, 413, 429}
