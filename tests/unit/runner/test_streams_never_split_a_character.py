"""Incremental decoding: the pieces and the flush, concatenated, are what decoding all ids at once gives."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, models
from tokenizers import Tokenizer as Library

from headrace_engine.runner.detokenizer import MOST_SILENT, ByteLevelDecoder, WindowDecoder, token_bytes
from headrace_engine.runner.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
TEXTS = (
    "The mill",
    "naïve café",
    "水车磨坊",
    "👩‍👩‍👧‍👦 family",
    "🇫🇷🇯🇵",
    "עברית و عربى",
    "a\u0301\u200d",
    "\n\t  x",
)


@pytest.fixture(scope="module")
def tokenizer(tiny_model_dir):
    return Tokenizer.load(tiny_model_dir)


@pytest.fixture(scope="module")
def sentencepiece_like():
    """A vocabulary that falls back to byte tokens and marks spaces, as Llama 2's and Gemma's do."""
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        "▁the",
        "a",
        "▁é",
        "水",
    ]
    library = Library(models.BPE({token: i for i, token in enumerate(tokens)}, [], byte_fallback=True))
    library.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    library.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    return Tokenizer(library, library, None)


def pieces(decoder, ids, cuts):
    """What each push returns when the ids come in groups as `cuts` says, and what the flush returns."""
    told, at = [], 0
    for size in cuts:
        told.append(decoder.push(ids[at : at + size]))
        at += size
    return [*told, decoder.push(ids[at:]), decoder.flush()]


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_without_replacement_characters(tokenizer, text):
    ids = tokenizer.encode(text)
    told = pieces(tokenizer.decoder(), ids, [1] * len(ids))
    assert "".join(told) == text
    assert not any(REPLACEMENT in piece for piece in told)


@given(st.lists(st.integers(0, 1100), max_size=40), st.lists(st.integers(0, 3), max_size=40))
@example([300, 200, 199], [1, 1])
def test_any_byte_level_ids_in_any_grouping(tokenizer, ids, cuts):
    assert isinstance(tokenizer.decoder(), ByteLevelDecoder)
    assert "".join(pieces(tokenizer.decoder(), ids, cuts)) == tokenizer.decode(ids)


@given(st.lists(st.integers(0, 263), max_size=40), st.lists(st.integers(0, 3), max_size=40))
@example([263, 3 + 0xE6, 3 + 0xB0, 3 + 0xB4, 261, 3 + 0xFF], [1, 1, 1, 1, 1, 1])
@example([1, 260, 259, 2, 260], [1] * 5)
def test_any_ids_of_a_vocabulary_with_byte_tokens(sentencepiece_like, ids, cuts):
    assert isinstance(sentencepiece_like.decoder(), WindowDecoder)
    assert "".join(pieces(sentencepiece_like.decoder(), ids, cuts)) == sentencepiece_like.decode(ids)


def test_half_a_character_is_held_back_until_the_flush(tokenizer):
    ids = tokenizer.encode("🏭")
    assert len(ids) == 4
    decoder = tokenizer.decoder()
    assert decoder.push(ids[:3]) == ""
    assert decoder.flush() == REPLACEMENT


def test_control_tokens_leave_no_text(tokenizer):
    assert tokenizer.decode([1, 2]) == ""
    assert tokenizer.decoder().push([1, 2]) == ""


def test_an_added_token_stands_for_itself(tiny_model_dir):
    library = Library.from_file(str(tiny_model_dir / "tokenizer.json"))
    library.add_tokens([AddedToken("<tool ü>", special=False, normalized=False)])
    (index,) = library.encode("<tool ü>").ids
    assert token_bytes(library)[index] == "<tool ü>".encode()
    assert library.decode([index]) == "<tool ü>"


@pytest.mark.parametrize("between", [[], [260], [1], [3 + 0xE6]], ids=["alone", "words", "control", "a byte"])
def test_tokens_without_a_text_cost_no_more_the_more_there_are(sentencepiece_like, between):
    """A client may ask for nothing but ids that a model has and its tokenizer lacks."""
    decoded = []

    def decode(ids):
        decoded.append(len(ids))
        return sentencepiece_like.decode(ids)

    decoder = WindowDecoder(decode, frozenset(), sentencepiece_like._byte_tokens)
    ids = [259, *[9_999, *between] * 3_000, 260, 261]
    told = "".join([*(decoder.push([index]) for index in ids), decoder.flush()])
    assert told == sentencepiece_like.decode(ids, skip_special_tokens=True)
    assert sum(decoded) < 300 * len(ids)
    assert len(decoder._window) <= 2 * MOST_SILENT


def test_a_decoder_that_panics_is_an_error_like_any_other(tmp_path):
    """Its regular expression is the model's own."""
    library = Library(models.BPE({"x": 0, "a": 1}, []))
    hostile = decoders.Replace(Regex(r"(x+x+)+(?<=a)"), "")
    library.decoder = decoders.Sequence([decoders.Fuse(), hostile])
    library.save(str(tmp_path / "tokenizer.json"))
    decoder = Tokenizer.load(tmp_path).decoder()
    assert decoder.push([1]) == "a"
    with pytest.raises(ValueError, match="decoder fails"):
        decoder.push([0] * 200)
