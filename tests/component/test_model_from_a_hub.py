"""`hf://` against a hub on loopback: the real library, real sockets, a hub that may be hostile or gone."""

import json
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from model_hub import COMMIT, FakeHub

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.hub.name import HubName
from headrace_engine.runner.model_directory import resolve_model
from headrace_engine.runner.model_runner import ModelRunner
from headrace_engine.runner.tokenizer import Tokenizer

SERVED = {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}
PLACED = {*SERVED, ".headrace-revision"}


@pytest.fixture
def files(tiny_model_dir):
    return {path.name: path.read_bytes() for path in tiny_model_dir.iterdir() if path.name in SERVED}


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "models"


@pytest.fixture
def hub(files, models, monkeypatch):
    with FakeHub(files).running() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def names_in(directory):
    return {path.name for path in directory.iterdir()}


def visible(models):
    return {name for name in names_in(models) if not name.startswith(".")} if models.exists() else set()


def test_a_model_is_downloaded_checked_and_served(hub, models):
    directory = resolve_model(f"hf://org/name@{COMMIT}")
    assert directory == models / "org--name@0123456789ab"
    assert names_in(directory) == PLACED
    assert not any(path.is_symlink() for path in directory.iterdir())
    runner = ModelRunner.load(directory, dtype="float32", num_blocks=8, max_model_len=256)
    assert runner.vocab_size == 1024
    assert Tokenizer.load(directory).apply_chat_template([{"role": "user", "content": "hi"}])


def test_only_what_is_needed_is_downloaded(hub):
    unwanted = (
        "pytorch_model.bin",
        "modeling.py",
        "README.md",
        "consolidated.safetensors",
        "onnx/model.onnx",
        "original/params.json",
        "training.pt",
        "sub/model.safetensors",
    )
    hub.files |= dict.fromkeys(unwanted, b"x")
    directory = resolve_model("hf://org/name")
    assert hub.downloaded() == SERVED
    assert names_in(directory) == PLACED


def test_two_that_start_at_once_download_once(hub):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(resolve_model, ["hf://org/name"] * 2)
    assert first == second
    assert names_in(first) == PLACED
    got = [path for method, path, _ in hub.requests if method == "GET" and path.endswith("model.safetensors")]
    assert len(got) == 1


def test_shards_come_with_their_index(hub):
    whole = hub.files.pop("model.safetensors")
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    index = {"weight_map": {"model.norm.weight": shards[0], "model.embed_tokens.weight": shards[1]}}
    hub.files |= {"model.safetensors.index.json": json.dumps(index).encode(), **dict.fromkeys(shards, whole)}
    assert {*shards, "model.safetensors.index.json"} <= names_in(resolve_model("hf://org/name"))


def test_a_pinned_commit_that_stands_there_needs_no_hub(hub):
    first = resolve_model(f"hf://org/name@{COMMIT}")
    asked = len(hub.requests)
    assert resolve_model(f"hf://org/name@{COMMIT}") == first
    assert len(hub.requests) == asked


def test_a_branch_warns_and_says_how_to_pin_it(hub, caplog):
    with caplog.at_level(logging.WARNING):
        resolve_model("hf://org/name")
    assert f"pin it as hf://org/name@{COMMIT}" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        resolve_model(f"hf://org/name@{COMMIT}")
    assert not caplog.records


@pytest.mark.parametrize("how", ["down", "gone", "offline"])
def test_without_a_hub_a_branch_is_served_as_it_was_fetched_last(hub, monkeypatch, caplog, how):
    first = resolve_model("hf://org/name")
    break_off(hub, monkeypatch, how)
    assert resolve_model("hf://org/name") == first
    assert "served as it was fetched last" in caplog.text


@pytest.mark.parametrize(
    ("how", "said"),
    [("down", "answered 503"), ("gone", "cannot be reached.*HF_ENDPOINT"), ("offline", "HF_HUB_OFFLINE")],
)
def test_without_a_hub_a_new_model_says_what_to_do(hub, monkeypatch, how, said):
    break_off(hub, monkeypatch, how)
    with pytest.raises(ModelLoadError, match=said):
        resolve_model("hf://org/name")


def break_off(hub, monkeypatch, how):
    if how == "down":
        hub.down = True
    elif how == "gone":
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    else:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/../../x", "..\\x", "a\nb"])
def test_a_name_that_leaves_the_directory_refuses_the_model(hub, models, name):
    hub.files[name] = b"{}"
    with pytest.raises(ModelLoadError, match="outside of its directory"):
        resolve_model("hf://org/name")
    assert hub.downloaded() == set()
    assert not models.exists() or names_in(models) == set()


def test_the_token_stays_with_the_hub_when_weights_are_elsewhere(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.token = "hf_secret"
    with FakeHub(hub.files).running() as storage:
        hub.elsewhere = storage.url.replace("127.0.0.1", "localhost")
        resolve_model("hf://org/name")
        assert {token for _, _, token in storage.requests} == {None}
        assert storage.downloaded() == {"model.safetensors"}
    assert {token for _, _, token in hub.requests} == {"Bearer hf_secret"}


def test_the_token_stays_with_the_hub_when_its_api_is_elsewhere(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with FakeHub(hub.files).running() as other:
        hub.api_elsewhere = other.url
        resolve_model("hf://org/name")
        assert other.requests
        assert {token for _, _, token in other.requests} == {None}


def test_no_token_goes_over_plain_http_to_another_machine(monkeypatch, caplog, models):
    from headrace_engine.runner.hub.fetch import _token

    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    assert _token() is False
    assert "not https" in caplog.text
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    assert _token() is None


def test_a_truncated_file_is_found_and_the_next_start_completes_it(hub, models):
    hub.cut = {"model.safetensors"}
    with pytest.raises(ModelLoadError, match="could not be downloaded whole"):
        resolve_model("hf://org/name")
    assert visible(models) == set()
    hub.cut = set()
    assert names_in(resolve_model("hf://org/name")) == PLACED
    assert not any(name.endswith(".partial") for name in names_in(models))


def test_a_models_directory_that_cannot_be_written_names_the_variable(hub, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HEADRACE_MODELS", str(tmp_path / "file" / "models"))
    with pytest.raises(ModelLoadError, match="set HEADRACE_MODELS to a directory that can be written"):
        resolve_model("hf://org/name")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_other_bytes_than_announced_are_refused(hub, models, name):
    hub.swapped = {name}
    with pytest.raises(ModelLoadError, match=f"{name} is not the file that the hub announced"):
        resolve_model("hf://org/name")
    assert visible(models) == set()


def test_a_gated_model_says_where_to_ask(hub):
    hub.token, hub.gated = "hf_of_somebody_else", True
    with pytest.raises(ModelLoadError, match=r"gated: accept its terms on https://huggingface\.co/org/name"):
        resolve_model("hf://org/name")


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("hf://org/other", "no model 'org/other'.*HF_TOKEN"),
        ("hf://org/name@v9", "no revision 'v9'"),
        ("hf://org", "write hf://ORG/NAME"),
        ("hf://org/../name", "write hf://ORG/NAME"),
        ("hf://org/name@../x", "write hf://ORG/NAME"),
        ("hf://org/name/file", "write hf://ORG/NAME"),
    ],
)
def test_what_is_not_there_is_named(hub, uri, said):
    with pytest.raises(ModelLoadError, match=said):
        resolve_model(uri)


@pytest.mark.parametrize(
    ("absent", "said"),
    [
        ("model.safetensors", "no safetensors"),
        ("config.json", r"config\.json"),
        ("tokenizer.json", "tokenizer"),
    ],
)
def test_a_repository_without_what_is_needed_downloads_nothing(hub, absent, said):
    del hub.files[absent]
    hub.files["pytorch_model.bin"] = b"x"
    with pytest.raises(ModelLoadError, match=said):
        resolve_model("hf://org/name")
    assert hub.downloaded() == set()


def test_a_name_is_read_with_and_without_its_revision():
    assert HubName.parse("hf://Qwen/Qwen2.5-0.5B") == HubName("Qwen", "Qwen2.5-0.5B", "main")
    assert HubName.parse("hf://a/b@refs/pr/3").revision == "refs/pr/3"
    assert not HubName.parse("hf://a/b@0123456").is_pinned


def test_the_command_downloads_ahead_of_serving(hub, models):
    hub.token = "hf_secret"
    command = [sys.executable, "-m", "headrace_cli.main", "models", "add", f"hf://org/name@{COMMIT}"]
    done = subprocess.run(
        command, env={**os.environ, "HF_TOKEN": "hf_secret"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert visible(models) == {"org--name@0123456789ab"}
