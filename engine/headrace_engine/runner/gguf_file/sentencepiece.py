"""SentencePiece BPE as GGUF keeps it (Llama 2, Mistral): tokens with scores, and no merges.

SentencePiece merges, of all neighbours whose union is a token, those with the best score first. Written as
merges that is: every way to split a token into two tokens, ranked by its score. What no token covers falls
back to bytes.
"""

from collections.abc import Iterator, Sequence

from tokenizers import Tokenizer, decoders, models, normalizers

from headrace_engine.runner.gguf_file.metadata import GGUFModel

_SPACE = "▁"
_NORMAL, _UNUSED = 1, 5


def sentencepiece(model: GGUFModel) -> Tokenizer:
    """The tokenizer of a file whose `tokenizer.ggml.model` is `llama`; control tokens are added by others."""
    tokens, scores = model.field("tokenizer.ggml.tokens"), model.field("tokenizer.ggml.scores")
    kinds = model.field("tokenizer.ggml.token_type")
    merged = {
        token: score
        for token, score, kind in zip(tokens, scores, kinds, strict=True)
        if kind in {_NORMAL, _UNUSED}
    }
    unknown = model.field("tokenizer.ggml.unknown_token_id", 0)
    tokenizer = Tokenizer(
        models.BPE(
            {token: index for index, token in enumerate(tokens)},
            _merges(merged),
            unk_token=tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    has_prefix = bool(model.field("tokenizer.ggml.add_space_prefix", True))
    tokenizer.normalizer = normalizers.Sequence(
        [*([normalizers.Prepend(_SPACE)] if has_prefix else []), normalizers.Replace(" ", _SPACE)]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(_SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            *([decoders.Strip(" ", 1, 0)] if has_prefix else []),
        ]
    )
    return tokenizer


def _merges(scores: dict[str, float]) -> Sequence[tuple[str, str]]:
    best_first = sorted(scores, key=lambda token: -scores[token])
    return [pair for token in best_first for pair in _splits(token, scores)]


def _splits(token: str, scores: dict[str, float]) -> Iterator[tuple[str, str]]:
    for at in range(1, len(token)):
        if (left := token[:at]) in scores and (right := token[at:]) in scores:
            yield left, right
