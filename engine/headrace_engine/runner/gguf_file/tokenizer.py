"""The tokenizer of a GGUF file as `tokenizer.json` and `tokenizer_config.json`.

GGUF names the pre-tokenizer and leaves its rules to the reader. Known here are SentencePiece's and some that
are byte-level; for others the model's own `tokenizer.json`, put beside the file, is taken.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from tokenizers.pre_tokenizers import PreTokenizer

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.gguf_file.metadata import GGUFModel
from headrace_engine.runner.gguf_file.sentencepiece import sentencepiece

_CONTROL, _USER_DEFINED = 3, 4
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}"
    r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS = {"llama-bpe": _WORDS.format(digits="{1,3}"), "qwen2": _WORDS.format(digits="")}
_GPT2, _SMOLLM = {"default", "gpt-2"}, {"smollm"}


def write_tokenizer(model: GGUFModel, directory: Path) -> None:
    """Writes both files into `directory`.

    Raises:
        ModelLoadError: a tokenizer whose rules are not known and that has no `tokenizer.json` beside it.
    """
    beside = model.path.with_name("tokenizer.json")
    if beside.is_file():
        shutil.copyfile(beside, directory / "tokenizer.json")
    else:
        _tokenizer(model).save(str(directory / "tokenizer.json"))
    text = json.dumps(_tokenizer_config(model), indent=2, ensure_ascii=False)
    (directory / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")


def _tokenizer(model: GGUFModel) -> Tokenizer:
    tokens, kinds = model.field("tokenizer.ggml.tokens"), model.field("tokenizer.ggml.token_type")
    is_sentencepiece = model.field("tokenizer.ggml.model") == "llama"
    tokenizer = sentencepiece(model) if is_sentencepiece else _byte_level(model)
    added = [
        AddedToken(token, special=kind == _CONTROL, normalized=False)
        for token, kind in zip(tokens, kinds, strict=True)
        if kind in {_CONTROL, _USER_DEFINED}
    ]
    tokenizer.add_tokens(added)
    if model.field("tokenizer.ggml.add_bos_token", is_sentencepiece):
        first = model.field("tokenizer.ggml.bos_token_id")
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{tokens[first]} $A", special_tokens=[(tokens[first], first)]
        )
    return tokenizer


def _byte_level(model: GGUFModel) -> Tokenizer:
    pre_tokenizer = _pre_tokenizer(model)
    merges = [tuple(merge.split(" ", 1)) for merge in model.field("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(
        models.BPE(
            {token: index for index, token in enumerate(model.field("tokenizer.ggml.tokens"))},
            merges,
            ignore_merges=model.field("tokenizer.ggml.pre", "") == "llama-bpe",
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _pre_tokenizer(model: GGUFModel) -> PreTokenizer:
    kind, name = model.field("tokenizer.ggml.model"), model.field("tokenizer.ggml.pre", "default")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if kind == "gpt2" and name in _GPT2:
        return byte_level
    if kind == "gpt2" and name in _SMOLLM:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    if kind == "gpt2" and name in _SPLITS:
        bytes_of_words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        split = pre_tokenizers.Split(Regex(_SPLITS[name]), behavior="isolated")
        return pre_tokenizers.Sequence([split, bytes_of_words])
    raise ModelLoadError(
        f"{model.path} has a tokenizer of kind {kind!r:.40} ({name!r:.40}), whose rules the file does not "
        f"hold: put the model's tokenizer.json beside it, into {model.path.parent}"
    )


def _tokenizer_config(model: GGUFModel) -> dict[str, Any]:
    tokens = model.field("tokenizer.ggml.tokens")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.hyperparameter("context_length"),
        "clean_up_tokenization_spaces": False,
    }
    for name, field in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        index = model.field(f"tokenizer.ggml.{field}_token_id", None)
        if index is not None and index < len(tokens):
            config[f"{name}_token"] = tokens[index]
    if (template := model.field("tokenizer.chat_template", None)) is not None:
        config["chat_template"] = template
    return config
