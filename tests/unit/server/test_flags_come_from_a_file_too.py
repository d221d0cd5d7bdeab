"""`headrace serve --config FILE`: the command line wins, then the environment, then the file."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace_cli.main import build
from headrace_engine.server import main
from headrace_engine.server.config import ServeConfig


def run(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    done = CliRunner().invoke(build(), list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"} | (env or {}))
    return done.exit_code, done.output


@pytest.fixture
def served(monkeypatch) -> list[ServeConfig]:
    seen: list[ServeConfig] = []
    monkeypatch.setattr(main, "run", lambda config, log_level: seen.append(config) or 0)
    return seen


@pytest.fixture
def write(tmp_path):
    def document(text: str) -> str:
        path: Path = tmp_path / "serve.yaml"
        path.write_text(text)
        return str(path)

    return document


def test_a_file_may_say_everything(served, write) -> None:
    path = write(
        "model: dir/model\nmax-num-seqs: 7\nmax_num_batched_tokens: 64\nserved-model-name: [a, b]\n"
        "enable-prefix-caching: false\nslo-ttft-ms: 250\nport: 0\nlog-level: debug\nkv-cache-memory-bytes:\n"
    )
    code, output = run("serve", "--config", path)
    assert code == 0, output
    config = served[0]
    assert (config.model, config.names) == ("dir/model", ("a", "b"))
    assert (config.max_num_seqs, config.max_num_batched_tokens, config.port) == (7, 64, 0)
    assert (config.enable_prefix_caching, config.slo.ttft_s) == (False, 0.25)
    assert config.kv_cache_memory_bytes is None


def test_the_command_line_wins_then_the_environment_then_the_file(served, write) -> None:
    path = write("model: of-file\nmax-num-seqs: 1\nblock-size: 1\nseed: 1\nserved-model-name: one\n")
    flags = ("of-line", "--max-num-seqs", "3", "--served-model-name", "three")
    env = {"HEADRACE_MAX_NUM_SEQS": "2", "HEADRACE_BLOCK_SIZE": "2"}
    code, output = run("serve", *flags, "--config", path, env=env)
    assert code == 0, output
    config = served[0]
    assert (config.model, config.max_num_seqs, config.block_size, config.seed) == ("of-line", 3, 2, 1)
    assert config.names == ("three",)


def test_a_negated_flag_is_a_key_too(served, write) -> None:
    assert run("serve", "m", "--config", write("no-enable-prefix-caching: true\n"))[0] == 0
    assert served[0].enable_prefix_caching is False


def test_the_file_may_be_named_by_the_environment(served, write) -> None:
    assert run("serve", "m", env={"HEADRACE_CONFIG": write("seed: 5\n")})[0] == 0
    assert served[0].seed == 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("max-num-seq: 5\n", "Did you mean 'max-num-seqs'?"),
        ("served_model: a\n", "Did you mean 'served-model-name'?"),
        ("gpu-memory-utilization: 0.9\n", "--kv-cache-memory-bytes"),
        ("config: other.yaml\n", "'config' is no flag"),
        ("max-num-seqs: 5\nmax-num-seqs: 6\n", "max-num-seqs stands twice"),
        ("max-num-seqs: 5\nmax_num_seqs: 6\n", "max-num-seqs twice"),
        ("max-num-seqs: true\n", "max-num-seqs takes a text, a number"),
        ("max-num-seqs: 2.5\n", "should be a valid integer"),
        ("max-num-seqs: {a: 1}\n", "max-num-seqs takes a text, a number"),
        ("enable-prefix-caching: 1\n", "enable-prefix-caching takes true or false"),
        ("- max-num-seqs\n", "no mapping of flags"),
        ("a: [\n", "cannot be read"),
        ("a: !!python/object:os.system {}\n", "cannot be read"),
        ("port: 70000\n", "70000 is no port"),
        ("x: " + "y" * 70_000, "is longer than"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_what_would_do(served, write, text, told) -> None:
    code, output = run("serve", "m", "--config", write(text))
    assert code == 2
    assert told in output.replace("\n", " ")
    assert served == []


@pytest.mark.parametrize(
    "flags",
    [
        ("--num-gpu-blocks-override", "8", "--kv-cache-memory-bytes", "1000000"),
        ("--port", "9000", "--admin-port", "9000", "--admin-token-file", __file__),
    ],
)
def test_flags_that_contradict_each_other_are_refused_by_name(served, flags) -> None:
    code, output = run("serve", "m", *flags)
    assert code == 2
    assert all(flag in output for flag in flags[:3:2])
    assert served == []


def test_a_flag_and_a_file_that_contradict_each_other_are_refused(served, write) -> None:
    code, _ = run(
        *("serve", "m", "--num-gpu-blocks-override", "8"),
        *("--config", write("kv-cache-memory-bytes: 100000\n")),
    )
    assert (code, served) == (2, [])


@pytest.mark.parametrize("endpoint", ["collector:4317", "grpc://c:4317", "http://", "nonsense"])
def test_an_endpoint_that_is_no_collectors_url_is_refused(served, endpoint) -> None:
    code, output = run("serve", "m", "--otlp-traces-endpoint", endpoint)
    assert (code, served) == (2, [])
    assert "http://collector:4318" in output


def test_an_endpoint_with_a_secret_in_it_is_refused_and_not_shown(served) -> None:
    code, output = run("serve", "m", "--otlp-traces-endpoint", "http://user:canary@collector:4318")
    assert (code, served) == (2, [])
    assert "OTEL_EXPORTER_OTLP_HEADERS" in output
    assert "canary" not in output


def test_an_endpoint_without_a_path_gets_the_usual_one(served) -> None:
    for endpoint in ("http://c:4318", "http://c:4318/", "https://c/own/path"):
        assert run("serve", "m", "--otlp-traces-endpoint", endpoint)[0] == 0
    assert [config.otlp_traces_endpoint for config in served] == [
        "http://c:4318/v1/traces",
        "http://c:4318/v1/traces",
        "https://c/own/path",
    ]
