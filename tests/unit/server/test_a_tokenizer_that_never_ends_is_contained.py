"""Texts over which a model's own tokenizer computes for ever, or on which it fails: each is refused alone,
others are encoded meanwhile, and only many end the process. What is made to compute here ends with its test.
"""

import asyncio
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as Library

from headrace_engine.runner.tokenizer import Tokenizer
from headrace_engine.server import encoders as encoding
from headrace_engine.server.encoders import MOST_LOST, Encoders, EncodingError, NeverEndingError
from headrace_engine.server.errors import ApiError, invalid
from headrace_engine.server.prompts import Prompts

LITTLE_S = 0.02
MUCH = bytes(1 << 20)
TRY_OUT = """
import asyncio, os, sys
from pathlib import Path
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.tokenizer import Tokenizer
from headrace_engine.server.tokenizer_trial import try_out
try:
    asyncio.run(try_out(Tokenizer.load(Path(sys.argv[1])), Path(sys.argv[1]), most_cpu_s=0.3))
    print("taken")
except ModelLoadError as error:
    print(error)
sys.stdout.flush()
os._exit(0)
"""


@pytest.fixture(autouse=True)
def looks_often(monkeypatch) -> None:
    monkeypatch.setattr(encoding, "LOOK_S", 0.005)


class Spinner:
    """Work that computes until the test is over."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def __call__(self) -> str:
        while not self.may_end.is_set():
            hashlib.sha256(MUCH)  # without the interpreter's lock, as the library does
        return "late"


@pytest.fixture
def spin() -> Iterator[Spinner]:
    spinner = Spinner()
    yield spinner
    spinner.may_end.set()


async def test_what_never_ends_is_given_up_and_what_waited_behind_it_is_done(spin) -> None:
    encoders = Encoders(1)
    endless = asyncio.create_task(encoders.run(spin, LITTLE_S))
    behind = asyncio.create_task(encoders.run(lambda: "done", LITTLE_S))
    with pytest.raises(NeverEndingError):
        await endless
    assert await behind == "done"
    assert not encoders.is_stuck
    encoders.close()


async def test_many_that_never_end_make_it_stuck_and_it_heals_when_they_do(spin) -> None:
    encoders = Encoders(2)
    endless = [encoders.run(spin, LITTLE_S) for _ in range(MOST_LOST)]
    told = await asyncio.gather(*endless, return_exceptions=True)
    assert {type(each) for each in told} == {NeverEndingError}
    assert encoders.is_stuck
    with pytest.raises(ApiError) as refused:
        await encoders.run(lambda: "never begun", LITTLE_S)
    assert refused.value.status == 503
    spin.may_end.set()
    while encoders.is_stuck:
        await asyncio.sleep(0.01)
    assert await encoders.run(lambda: "done", LITTLE_S) == "done"
    encoders.close()


async def test_one_that_waits_computes_nothing_and_is_waited_for() -> None:
    """As for the child that renders a chat template, which has a bound of its own."""
    encoders, rendered = Encoders(1), threading.Event()
    waiting = asyncio.create_task(encoders.run(rendered.wait, LITTLE_S))
    for _ in range(5):
        await asyncio.sleep(0.02)
    rendered.set()
    assert await waiting is True
    encoders.close()


class Panic(BaseException):
    """As the library's: no `Exception`."""


@pytest.mark.parametrize("error", [Panic("regex"), Exception("WordPiece error: Missing [UNK] token")])
async def test_a_failure_of_the_library_is_one_texts_and_the_thread_goes_on(error) -> None:
    def fail() -> None:
        raise error

    encoders = Encoders(1)
    for _ in range(3):
        with pytest.raises(EncodingError, match="fails on a text"):
            await encoders.run(fail, LITTLE_S)
    assert await encoders.run(lambda: "done", LITTLE_S) == "done"
    assert len(encoders._workers) == 1
    encoders.close()


async def test_an_error_of_our_own_stays_what_it_is() -> None:
    def fail() -> None:
        raise invalid("prompt", "too long")

    encoders = Encoders(1)
    with pytest.raises(ApiError):
        await encoders.run(fail, LITTLE_S)
    encoders.close()


def directory_with(path: Path, regex: str) -> Path:
    library = Library(
        models.BPE(vocab={character: index for index, character in enumerate("ax1 !")}, merges=[])
    )
    library.pre_tokenizer = pre_tokenizers.Split(Regex(regex), "isolated")
    library.save(str(path / "tokenizer.json"))
    return path


async def test_a_regex_that_gives_itself_up_refuses_the_text_that_it_was_over(tmp_path) -> None:
    """Exponential: the library stops it after so many attempts, and panics."""
    tokenizer = Tokenizer.load(directory_with(tmp_path, r"(x+x+)+!"))
    prompts = Prompts(tokenizer, max_model_len=256, vocab_size=5)
    with pytest.raises(ApiError) as refused:
        await prompts.text("x" * 64)
    assert (refused.value.status, refused.value.body.param) == (400, "prompt")
    assert "tokenizer fails" in refused.value.body.message
    assert await prompts.text("a1 x") == [0, 2, 3, 1]
    prompts.close()


@pytest.mark.parametrize(
    ("regex", "told"),
    [
        (r" ?a+|\s+", "taken"),
        (r"(x+x+)+!", "taken"),
        (r"a*a*(?<=[x1])", "of 'a' alone"),
    ],
)
def test_a_tokenizer_is_tried_with_long_runs_before_it_serves(tmp_path, regex, told) -> None:
    """Polynomial: no attempt is long enough to be stopped, and there are as many as characters."""
    directory = directory_with(tmp_path, regex)
    command = [sys.executable, "-c", TRY_OUT, str(directory)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert told in answer.stdout
    assert told == "taken" or str(directory / "tokenizer.json") in answer.stdout
