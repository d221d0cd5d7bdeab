"""What is asked, and when: pure, and the same for the same generator.

Prompts are common English words in random order. Most tokenizers spend about one token on such a word, so a
length is near its target but not exact: the report counts what the server's usage says. No two prompts share
a beginning, so that a prefix cache cannot flatter the engine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random

_WORDS = """
time year people way day man thing woman life child world school state family student group country
problem hand part place case week company system program question work government number night point
home water room mother area money story fact month lot right study book eye job word business issue
side kind head house service friend father power hour game line end member law car city community
name president team minute idea body information back parent face others level office door health
person art war history party result change
"""


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long prompts and answers are: uniform within `spread_ratio` of the two means."""

    input_tokens: int
    output_tokens: int
    spread_ratio: float = 0.0

    def __post_init__(self) -> None:
        if self.input_tokens < 1 or self.output_tokens < 1:
            raise ValueError("input and output lengths are 1 token or more")
        if not 0.0 <= self.spread_ratio < 1.0:
            raise ValueError("the spread of lengths is a ratio in [0, 1)")


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to send: `prompt` of about `input_tokens` tokens, an answer of at most `output_tokens`."""

    index: int
    prompt: str
    input_tokens: int
    output_tokens: int
    seed: int


def asks(lengths: Lengths, rng: Random) -> Iterator[Ask]:
    """Requests without end, numbered from 0."""
    words = _WORDS.split()
    for index in count():
        input_tokens = _spread(lengths.input_tokens, lengths.spread_ratio, rng)
        output_tokens = _spread(lengths.output_tokens, lengths.spread_ratio, rng)
        prompt = " ".join(rng.choices(words, k=input_tokens))
        yield Ask(index, prompt, input_tokens, output_tokens, rng.getrandbits(31))


def poisson_arrivals(rate_per_s: float, rng: Random) -> Iterator[float]:
    """Arrival times without end, in seconds from the start: independent exponential gaps of mean 1 / rate."""
    if rate_per_s <= 0:
        raise ValueError("the rate of arrivals is above 0 per second")
    at_s = 0.0
    while True:
        at_s += rng.expovariate(rate_per_s)
        yield at_s


def _spread(mean: int, ratio: float, rng: Random) -> int:
    return max(1, round(mean * (1 + ratio * rng.uniform(-1, 1))))
