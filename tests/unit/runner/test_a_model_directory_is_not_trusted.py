"""What a hostile or broken model directory meets: an error that names the file or key, and nothing opened."""

import json
import pickle
import shutil
import sys
import tracemalloc
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from headrace_engine.runner.cache import models_directory
from headrace_engine.runner.config import ModelConfig
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.model_directory import file_in, read_json, resolve_model
from headrace_engine.runner.model_runner import ModelRunner
from headrace_engine.runner.tokenizer import Tokenizer
from headrace_engine.runner.weights import Weights

INDEX = "model.safetensors.index.json"


@pytest.fixture
def model(tiny_model_dir, tmp_path):
    return shutil.copytree(tiny_model_dir, tmp_path / "model")


def edit(model, name, **changes):
    document = json.loads((model / name).read_text())
    document.update(changes)
    (model / name).write_text(json.dumps(document))


def load(model, **options):
    return ModelRunner.load(model, **{"dtype": "float32", "num_blocks": 128, "max_model_len": 256, **options})


def load_all(model):
    load(model)
    Tokenizer.load(model)


def shard(model, names_of_second):
    """Splits the weights into two files with an index."""
    tensors = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    parts = {
        "one.safetensors": {n: t for n, t in tensors.items() if n not in names_of_second},
        "two.safetensors": {n: t for n, t in tensors.items() if n in names_of_second},
    }
    for name, part in parts.items():
        save_file(part, model / name)
    weight_map = {tensor: name for name, part in parts.items() for tensor in part}
    (model / INDEX).write_text(json.dumps({"weight_map": weight_map}))


@pytest.mark.parametrize(
    ("name", "changes", "key"),
    [
        ("config.json", {"auto_map": {"AutoModel": "evil.Model"}}, "auto_map"),
        ("config.json", {"trust_remote_code": True}, "trust_remote_code"),
        ("config.json", {"vision": [{"inner": {"auto_map": {}}}]}, "auto_map"),
        ("generation_config.json", {"a": {"trust_remote_code": False}}, "trust_remote_code"),
    ],
)
def test_a_model_that_asks_for_code_is_refused_and_the_key_named(model, name, changes, key):
    edit(model, name, **changes)
    with pytest.raises(ModelLoadError, match=key):
        load(model)


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "sub/../../outside.safetensors"])
def test_a_name_that_leaves_the_directory_is_refused(model, name):
    (model.parent / "outside.safetensors").write_bytes(b"secret")
    with pytest.raises(ModelLoadError, match="outside"):
        file_in(model, name)


def test_a_link_that_leaves_the_directory_is_refused(model):
    outside = model.parent / "outside.safetensors"
    (model / "model.safetensors").rename(outside)
    (model / "model.safetensors").symlink_to(outside)
    with pytest.raises(ModelLoadError, match="outside"):
        load(model)


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    ],
)
def test_no_file_of_a_model_is_a_link_to_elsewhere(model, name):
    """A link in a repository made a loader read, and later show, a file of the machine."""
    outside = model.parent / "secret"
    outside.write_text((model / name).read_text() if (model / name).exists() else "{{ 1 }}")
    (model / name).unlink(missing_ok=True)
    (model / name).symlink_to(outside)
    with pytest.raises(ModelLoadError, match="outside"):
        load_all(model)


def test_the_index_may_name_safetensors_alone(model):
    ran = model / "ran"

    class Bomb:
        def __reduce__(self):
            return (open, (str(ran), "w"))

    (model / "weights.bin").write_bytes(pickle.dumps(Bomb()))
    (model / "model.safetensors").unlink()
    (model / INDEX).write_text(json.dumps({"weight_map": {"model.norm.weight": "weights.bin"}}))
    with pytest.raises(ModelLoadError, match=r"weights\.bin"):
        load(model)
    assert not ran.exists()


def test_pickled_weights_are_not_looked_for(model):
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(ModelLoadError, match="safetensors files only"):
        load(model)


def test_shards_make_the_same_model_as_one_file(model, tiny_model_dir):
    shard(model, {"model.norm.weight", "model.layers.2.mlp.up_proj.weight"})
    with Weights(model, torch.float32) as sharded, Weights(tiny_model_dir, torch.float32) as whole:
        for name in ("model.norm.weight", "model.layers.0.input_layernorm.weight"):
            assert torch.equal(sharded.tensor(name, 128), whole.tensor(name, 128))


def test_a_missing_shard_is_named(model):
    shard(model, {"model.norm.weight"})
    (model / "two.safetensors").unlink()
    with pytest.raises(ModelLoadError, match=r"two\.safetensors"):
        load(model)


def test_a_shard_without_its_tensor_names_the_tensor(model):
    shard(model, {"model.norm.weight"})
    (model / INDEX).write_text(json.dumps({"weight_map": {"model.embed_tokens.weight": "one.safetensors"}}))
    with pytest.raises(ModelLoadError, match=r"model\.norm\.weight"):
        load(model)


@pytest.mark.parametrize("keep", [0, 4, 8, 100, 20_000, -1])
def test_a_truncated_file_is_named(model, keep):
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelLoadError, match=r"model\.safetensors is truncated"):
        load(model)


@pytest.mark.parametrize("length", [2**63, 2**40, 10**9])
def test_a_header_that_claims_more_than_the_file_has_allocates_nothing(model, length):
    (model / "model.safetensors").write_bytes(length.to_bytes(8, "little") + b"{}" * 100)
    tracemalloc.start()
    with pytest.raises(ModelLoadError, match=r"model\.safetensors"):
        load(model)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 64 << 20


def header(tensor):
    text = json.dumps({"model.norm.weight": tensor}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(64)


@pytest.mark.parametrize(
    "tensor",
    [
        {"dtype": "F32", "shape": [128], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [128], "data_offsets": [0, 10**15]},
        {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 64]},
        {"dtype": "F32", "shape": [-16], "data_offsets": [0, 64]},
        {"dtype": "F32", "shape": [16], "data_offsets": [64, 0]},
        {"dtype": "F99", "shape": [16], "data_offsets": [0, 64]},
        {"dtype": "F32", "shape": "16", "data_offsets": [0, 64]},
        {"dtype": "F32", "shape": [16]},
        [],
    ],
)
def test_a_header_that_lies_about_a_tensor_is_refused(model, tensor):
    (model / "model.safetensors").write_bytes(header(tensor))
    with pytest.raises(ModelLoadError, match=r"model\.safetensors"):
        load(model)


def test_weights_of_another_shape_than_the_config_says(model):
    edit(model, "config.json", intermediate_size=360)
    with pytest.raises(ModelLoadError, match=r"gate_proj.*\(352, 128\).*\(360, 128\)"):
        load(model)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM.*LlamaForCausalLM"),
        ({"architectures": []}, "architectures"),
        ({"hidden_size": "128"}, "hidden_size"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_key_value_heads": 3}, "do not divide"),
        ({"vocab_size": True}, "vocab_size"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, r"q_proj\.bias"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"attention_bias": "yes"}, "attention_bias"),
        ({"head_dim": 33}, "head_dim"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantized"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "yarn"),
        ({"rope_parameters": [1]}, "rope_parameters"),
        ({"max_position_embeddings": None}, "max_position_embeddings"),
    ],
)
def test_a_config_that_cannot_be_served_names_the_key(model, changes, said):
    edit(model, "config.json", **changes)
    with pytest.raises(ModelLoadError, match=said):
        load(model)


def test_quantized_weights_are_not_taken_for_plain_ones(model):
    tensors = load_file(model / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    save_file({**tensors, name: tensors[name].to(torch.int8)}, model / "model.safetensors")
    with pytest.raises(ModelLoadError, match=r"up_proj\.weight' is stored as I8"):
        load(model)


@pytest.fixture
def audited():
    """What Python does from now on; a hook cannot be taken back, but can be told to look away."""
    events, looking = [], [True]

    def note(event, arguments):
        if looking[0] and event in {"open", "import", "socket.connect", "pickle.find_class"}:
            events.append((event, arguments))

    sys.addaudithook(note)
    yield events
    looking[0] = False


def test_loading_opens_what_it_may_and_connects_to_nothing(model, audited):
    for name in ("pytorch_model.bin", "model.pt", "model.pkl", "modeling_llama.py", "evil.json.py"):
        (model / name).write_bytes(b"raise SystemExit")
    edit(model, "tokenizer_config.json", tokenizer_file="../elsewhere.json")
    audited.clear()
    load(model)
    Tokenizer.load(model)
    opened = {Path(arguments[0]).name for event, arguments in audited if is_in(model, event, arguments)}
    assert opened <= {"config.json", "generation_config.json", "tokenizer_config.json", "model.safetensors"}
    assert opened >= {"config.json", "tokenizer_config.json"}
    assert not [event for event, _ in audited if event in {"socket.connect", "pickle.find_class"}]


def is_in(model, event, arguments):
    return (
        event == "open" and isinstance(arguments[0], str | Path) and str(arguments[0]).startswith(str(model))
    )


def test_end_of_sequence_ids_come_from_the_generation_config(model):
    edit(model, "generation_config.json", eos_token_id=[2, 0])
    assert ModelConfig.load(model).eos_token_ids == {0, 2}
    edit(model, "generation_config.json", eos_token_id=1024)
    with pytest.raises(ModelLoadError, match="below 1024"):
        ModelConfig.load(model)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a":' + "[" * 100_000, "\xff"])
def test_json_that_is_none(model, text):
    (model / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelLoadError, match=r"config\.json"):
        read_json(model, "config.json")


def test_a_context_longer_than_the_model_says_what_is_possible(model):
    with pytest.raises(ModelLoadError, match="at most 2048"):
        load(model, max_model_len=4096)


def test_an_unknown_model_says_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_MODELS", str(tmp_path))
    (tmp_path / "here").mkdir()
    assert resolve_model("here") == tmp_path / "here"
    with pytest.raises(ModelLoadError, match=str(tmp_path)):
        resolve_model("there")
    with pytest.raises(ModelLoadError, match="headrace models list"):
        resolve_model("../here/../nowhere")


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    for name in ("HEADRACE_CACHE", "XDG_CACHE_HOME", "HEADRACE_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models_directory() == tmp_path / ".cache/headrace/models"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert models_directory() == tmp_path / "xdg/headrace/models"
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    assert models_directory() == tmp_path / "cache/models"
    monkeypatch.setenv("HEADRACE_MODELS", str(tmp_path / "models"))
    assert models_directory() == tmp_path / "models"
