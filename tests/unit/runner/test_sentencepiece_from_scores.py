"""A tokenizer made of scores merges as SentencePiece does: best score first, leftmost of equals."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_engine.runner.gguf_file.sentencepiece import sentencepiece

BYTES = [f"<0x{value:02X}>" for value in range(256)]
WORDS = [
    "▁the",
    "▁a",
    "he",
    "th",
    "▁t",
    "in",
    "ing",
    "▁mill",
    "mi",
    "ll",
    "il",
    "▁m",
    "er",
    "▁the▁mill",
    "aa",
    "aaa",
]
LETTERS = list("▁abcdefghilmnrt")
TOKENS = ["<unk>", "<s>", "</s>", *BYTES, *WORDS, *LETTERS]
SCORES = {token: -float(rank) for rank, token in enumerate([*WORDS, *LETTERS])}
KINDS = [2, 3, 3, *[6] * 256, *[1] * len(SCORES)]


def made(**fields):
    values = {"tokens": TOKENS, "scores": [SCORES.get(token, 0.0) for token in TOKENS], "token_type": KINDS}
    values = {f"tokenizer.ggml.{name}": value for name, value in {**values, **fields}.items()}
    return sentencepiece(SimpleNamespace(field=values.get))


def as_sentencepiece(text):
    """The algorithm as published, on a list: slow and plain."""
    pieces = list("▁" + text.replace(" ", "▁"))
    while True:
        unions = [(SCORES[a + b], -at) for at, (a, b) in enumerate(pairwise(pieces)) if a + b in SCORES]
        if not unions:
            break
        at = -max(unions)[1]
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    return [
        part
        for piece in pieces
        for part in ([piece] if piece in SCORES else [BYTES[b] for b in piece.encode()])
    ]


TOKENIZER = made()


@given(st.text(alphabet="abehilmnrt  the mill ing水é", max_size=40).filter(bool))
def test_it_merges_as_sentencepiece_does(text):
    assert TOKENIZER.encode(text).tokens == as_sentencepiece(text)


@given(st.text(max_size=40).filter(lambda text: bool(text) and "▁" not in text))
def test_what_was_encoded_is_decoded(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids) == text


@pytest.mark.parametrize(("prefix", "first"), [(True, "▁the"), (False, "t")])
def test_a_space_goes_in_front_unless_the_file_says_otherwise(prefix, first):
    assert made(add_space_prefix=prefix).encode("the").tokens[0] == first
