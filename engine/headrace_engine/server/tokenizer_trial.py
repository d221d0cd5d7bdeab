"""A tokenizer is tried when it is loaded: one that comes to no end with a plain text refuses the model."""

from functools import partial
from pathlib import Path

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.server.encoders import Encoders, EncodingError, NeverEndingError
from headrace_engine.server.prompts import Tokenizer

MOST_CPU_S = 5.0
"""For one text: a thousand times what it takes."""
RUN_CHARACTERS = 4096
RUNS_OF = ("a", "A", "1", " ", "\n", "-", "_", "é", "中", "ab ", "aB1 ", "don't ")
"""What a regular expression that goes back and forth does so over, broken off by what ends no run."""


async def try_out(tokenizer: Tokenizer, directory: Path, *, most_cpu_s: float = MOST_CPU_S) -> None:
    """Raises `ModelLoadError` for a tokenizer that does not come to an end. What it fails on is refused when
    it is sent.
    """
    encoders = Encoders(1)
    try:
        for characters in RUNS_OF:
            run = characters * (RUN_CHARACTERS // len(characters))
            try:
                await encoders.run(partial(_there_and_back, tokenizer, f"{run}!{run}"), most_cpu_s)
            except NeverEndingError as error:
                message = f"{directory / 'tokenizer.json'} {error} of {characters!r} alone"
                raise ModelLoadError(f"{message}: correct its regular expressions") from None
            except EncodingError:
                continue
    finally:
        encoders.close()


def _there_and_back(tokenizer: Tokenizer, text: str) -> None:
    tokenizer.decode(tokenizer.encode(text))
