"""A random Llama of a million parameters with a tokenizer trained on the spot: for tests and first steps.

What it says means nothing, but it is the same on every machine: fixed seed, fixed text, fixed sizes.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace_engine.runner.catalog.entry import AddError, Entry, Progress

_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_BOS, _EOS = 1, 2
_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 1024,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "tie_word_embeddings": True,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": _BOS,
    "eos_token_id": _EOS,
    "dtype": "float32",
}


def _make(directory: Path, progress: Progress) -> None:
    progress("Training a tokenizer")
    _write_tokenizer(directory)
    progress("Drawing the weights")
    _write_weights(directory)
    for name, document in (
        ("config.json", _CONFIG),
        ("generation_config.json", {"bos_token_id": _BOS, "eos_token_id": _EOS}),
        ("tokenizer_config.json", _tokenizer_config()),
    ):
        (directory / name).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _SPECIAL[_BOS],
        "eos_token": _SPECIAL[_EOS],
        "pad_token": _SPECIAL[_EOS],
        "model_max_length": _CONFIG["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
        "chat_template": _CHAT_TEMPLATE,
    }


def _write_tokenizer(directory: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415 - only where used

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_CONFIG["vocab_size"],
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_sentences(), trainer)
    tokenizer.save(str(directory / "tokenizer.json"))


def _sentences() -> Iterator[str]:
    """Text enough for the merges of a small vocabulary: words combined by counting, no chance involved."""
    subjects = ("the river", "a mill", "the wheel", "our headrace", "the water", "this channel", "the sluice")
    verbs = ("feeds", "turns", "raises", "follows", "carries", "holds", "drives", "slows", "meets")
    objects = ("a stone", "the gate", "every wheel", "much grain", "the flow", "itself", "the level")
    manners = ("quietly", "at once", "in the morning", "without haste", "again", "for hours", "by design")
    for number in range(8000):
        subject, verb = subjects[number % len(subjects)], verbs[number // 3 % len(verbs)]
        thing, manner = objects[number // 7 % len(objects)], manners[number // 11 % len(manners)]
        yield f"{subject.capitalize()} {verb} {thing} {manner}, {number} times: is it {verb.upper()}?\n"


def _write_weights(directory: Path) -> None:
    import torch  # noqa: PLC0415 - only where it is used
    from safetensors.torch import save_file  # noqa: PLC0415

    generator = torch.Generator().manual_seed(7)
    hidden, inner, width = _CONFIG["hidden_size"], _CONFIG["intermediate_size"], _CONFIG["head_dim"]
    query, key_value = _CONFIG["num_attention_heads"] * width, _CONFIG["num_key_value_heads"] * width
    shapes = {"model.embed_tokens.weight": (_CONFIG["vocab_size"], hidden), "model.norm.weight": (hidden,)}
    for index in range(_CONFIG["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        shapes |= {
            f"{layer}.input_layernorm.weight": (hidden,),
            f"{layer}.post_attention_layernorm.weight": (hidden,),
            f"{layer}.self_attn.q_proj.weight": (query, hidden),
            f"{layer}.self_attn.k_proj.weight": (key_value, hidden),
            f"{layer}.self_attn.v_proj.weight": (key_value, hidden),
            f"{layer}.self_attn.o_proj.weight": (hidden, query),
            f"{layer}.mlp.gate_proj.weight": (inner, hidden),
            f"{layer}.mlp.up_proj.weight": (inner, hidden),
            f"{layer}.mlp.down_proj.weight": (hidden, inner),
        }
    weights = {}
    for name, shape in shapes.items():
        drawn = torch.randn(shape, generator=generator)
        weights[name] = 1 + 0.1 * drawn if len(shape) == 1 else drawn * shape[-1] ** -0.5
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


def _check(directory: Path) -> None:
    from headrace_engine.runner.catalog.trial import greedy_answer  # noqa: PLC0415 - torch, only where it is used

    if not greedy_answer(directory, "What turns the wheel?", max_tokens=8):
        raise AddError("the random model says nothing; nothing was added")


TINY_RANDOM = Entry(
    name="tiny-random",
    summary="a random Llama of a million parameters that talks nonsense: for tests and first steps (4 MB)",
    revision="1",
    make=_make,
    check=_check,
)
