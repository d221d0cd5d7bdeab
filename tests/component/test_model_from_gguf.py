"""A GGUF file is served as the directory that it was made of would be: same tokens in, same tokens out."""

import json

import numpy as np
import pytest
import torch
from model_families import VOCABULARY, make
from model_gguf import write
from model_oracle import Oracle, serve, tokens_of

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.gguf_file.convert import convert
from headrace_engine.runner.model_directory import resolve_model
from headrace_engine.runner.model_runner import ModelRunner
from headrace_engine.runner.rope import inverse_frequencies
from headrace_engine.runner.rope_config import Rope
from headrace_engine.runner.tokenizer import Tokenizer
from headrace_engine.runner.weights import Weights

pytestmark = pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated:FutureWarning")
TEXTS = ("The mill's wheel, 1234 times!", "  two  spaces\n\n", "Größe 水車 🎡", "<|im_end|> DON'T")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def load(path):
    return ModelRunner.load(
        path, dtype="float32", threads=1, max_model_len=256, block_size=16, num_blocks=256
    )


def answers(runner, vocabulary=VOCABULARY):
    prompts = [tokens_of(length, seed=length, vocabulary=vocabulary) for length in (3, 40)]
    return serve(runner, prompts, 10).tokens


def test_the_tiny_model_answers_alike_from_both(tiny_model_dir, tmp_path):
    gguf = write(tiny_model_dir, tmp_path / "tiny.gguf")
    assert answers(load(gguf), 1024) == answers(load(tiny_model_dir), 1024)
    ours, theirs = Tokenizer.load(gguf), Tokenizer.load(tiny_model_dir)
    messages = [{"role": "user", "content": TEXTS[0]}]
    assert ours.apply_chat_template(messages) == theirs.apply_chat_template(messages)
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text)
        assert ours.decode(ours.encode(text)) == text


@pytest.mark.parametrize(
    ("family", "architecture"),
    [("llama with biases", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3")],
)
def test_families_match_transformers_from_gguf_too(family, architecture, tiny_model_dir, tmp_path):
    model = make(family, tmp_path / "directory")
    gguf = write(
        tmp_path / "directory", tmp_path / "m.gguf", architecture=architecture, tokenizer=tiny_model_dir
    )
    prompt = tokens_of(30, seed=5, vocabulary=VOCABULARY)
    Oracle.ask(model, prompt, 10).assert_matches(serve(load(gguf), [prompt], 10).tokens["r0"])


def test_weights_keep_their_type_and_quantized_ones_become_bfloat16(tiny_model_dir, tmp_path):
    gguf = write(tiny_model_dir, tmp_path / "q8.gguf", quantized=True)
    with (
        Weights(resolve_model(str(gguf)), torch.float32) as found,
        Weights(tiny_model_dir, torch.float32) as expected,
    ):
        name = "model.layers.1.self_attn.q_proj.weight"
        torch.testing.assert_close(
            found.tensor(name, 128, 128), expected.tensor(name, 128, 128), rtol=0.02, atol=4e-3
        )
        norm = "model.layers.1.input_layernorm.weight"
        assert torch.equal(found.tensor(norm, 128), expected.tensor(norm, 128))


def test_a_file_is_converted_once_and_a_changed_one_again(tiny_model_dir, tmp_path, cache):
    gguf = write(tiny_model_dir, tmp_path / "tiny.gguf")
    first = resolve_model(str(gguf))
    made = (first / "model.safetensors").stat().st_mtime_ns
    assert resolve_model(str(gguf)) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == made
    gguf.touch()
    assert resolve_model(str(gguf)) != first
    assert all(path.name.startswith("tiny-") for path in (cache / "converted").iterdir())


def test_llama_3_s_scaling_is_recognized_and_another_refused(tiny_model_dir, tmp_path):
    scaled = Rope(10000.0, "llama3", 32.0, 1.0, 4.0, 8192)
    divisors = (inverse_frequencies(Rope(10000.0), 32) / inverse_frequencies(scaled, 32)).numpy()
    gguf = write(tiny_model_dir, tmp_path / "l3.gguf", tensors={"rope_freqs.weight": divisors})
    convert(gguf, tmp_path)
    found = json.loads((tmp_path / "config.json").read_text())["rope_parameters"]
    assert (found["rope_type"], found["factor"]) == ("llama3", 32.0)
    other = np.linspace(1, 9, 16, dtype=np.float32)
    with pytest.raises(ModelLoadError, match="otherwise than Llama 3"):
        convert(write(tiny_model_dir, tmp_path / "o.gguf", tensors={"rope_freqs.weight": other}), tmp_path)


@pytest.mark.parametrize(
    ("pre", "text", "pieces"),
    [
        ("smollm", "a 123", ["a", "Ġ", "1", "2", "3"]),
        ("llama-bpe", "it's 12345", ["it", "'s", "Ġ", "123", "45"]),
        ("qwen2", "it's 12", ["it", "'s", "Ġ", "1", "2"]),
    ],
)
def test_words_are_split_as_the_file_s_pre_tokenizer_does(tiny_model_dir, tmp_path, pre, text, pieces):
    from tokenizers import Tokenizer as Raw

    convert(write(tiny_model_dir, tmp_path / "m.gguf", pre=pre), tmp_path)
    split = Raw.from_file(str(tmp_path / "tokenizer.json")).pre_tokenizer.pre_tokenize_str(text)
    assert [piece for piece, _ in split] == pieces


def test_an_unknown_tokenizer_asks_for_the_file_beside_and_takes_it(tiny_model_dir, tmp_path):
    gguf = write(tiny_model_dir, tmp_path / "m.gguf", pre="tekken")
    with pytest.raises(ModelLoadError, match=r"tekken.*tokenizer\.json beside it"):
        Tokenizer.load(gguf)
    (tmp_path / "tokenizer.json").write_bytes((tiny_model_dir / "tokenizer.json").read_bytes())
    assert Tokenizer.load(gguf).encode("the mill") == Tokenizer.load(tiny_model_dir).encode("the mill")


def test_what_is_not_known_is_named(tiny_model_dir, tmp_path):
    path = tmp_path / "m.gguf"
    with pytest.raises(ModelLoadError, match=r"'mamba'.*llama, qwen2, qwen3"):
        load(write(tiny_model_dir, path, architecture="mamba"))
    with pytest.raises(ModelLoadError, match=r"blk\.0\.ssm\.weight"):
        load(write(tiny_model_dir, path, tensors={"blk.0.ssm.weight": np.zeros(4, np.float32)}))
    with pytest.raises(ModelLoadError, match="llama-gguf-split --merge"):
        load(write(tiny_model_dir, path, split__count=3))
    with pytest.raises(ModelLoadError, match="yarn"):
        load(write(tiny_model_dir, path, llama__rope__scaling__type="yarn"))


def test_a_cache_that_cannot_be_written_is_named(tiny_model_dir, tmp_path, monkeypatch):
    gguf = write(tiny_model_dir, tmp_path / "tiny.gguf")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelLoadError, match="HEADRACE_CACHE"):
        load(gguf)
