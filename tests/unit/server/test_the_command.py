"""The command line: what it shows, what it refuses, what the environment says."""

import re
import signal
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from headrace_cli.main import build
from headrace_engine.foreign_flags import INSTEAD
from headrace_engine.server import main
from headrace_engine.server.config import ServeConfig, compute_threads


def run(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    done = CliRunner().invoke(build(), list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"} | (env or {}))
    return done.exit_code, done.output


@pytest.fixture
def served(monkeypatch) -> list[ServeConfig]:
    """The configurations that `serve` would run with."""
    seen: list[ServeConfig] = []
    monkeypatch.setattr(main, "run", lambda config, log_level: seen.append(config) or 0)
    return seen


def test_it_tells_its_version() -> None:
    code, output = run("--version")
    assert (code, output.split()[0]) == (0, "headrace")


def test_help_groups_the_flags() -> None:
    code, output = run("serve", "--help")
    assert code == 0
    for panel in ("Model", "Scheduler limits", "KV cache", "HTTP", "Admin port", "Service level objectives"):
        assert f" {panel} " in output
    assert "HEADRACE_MAX_NUM_SEQS" in output


@pytest.mark.parametrize(
    ("flag", "nearest"), [("--max-num-seq", "--max-num-seqs"), ("--served-model", "--served-model-name")]
)
def test_an_unknown_flag_is_refused_with_the_nearest(flag, nearest) -> None:
    code, output = run("serve", "m", flag, "5")
    assert code == 2
    assert nearest in output


@pytest.mark.parametrize(
    ("flag", "instead"),
    [
        ("--gpu-memory-utilization", "--kv-cache-memory-bytes"),
        ("--revision", "hf://ORG/NAME@REVISION"),
        ("--api-key", "--api-keys FILE"),
        ("--max-running-requests", "--max-num-seqs"),
        ("--model", "headrace serve MODEL"),
        ("--trust-remote-code", "No code of a model"),
    ],
)
def test_a_flag_of_another_engine_is_refused_with_what_to_do_here(served, flag, instead) -> None:
    code, output = run("serve", "m", flag, "5")
    assert code == 2
    assert instead in output
    assert served == []


def test_what_to_do_here_names_flags_that_exist() -> None:
    _, help_text = run("serve", "--help")
    named = {flag for text in INSTEAD.values() for flag in re.findall(r"--[a-z-]+", text)}
    assert named
    assert [flag for flag in named if flag not in help_text] == []
    assert [flag for flag in INSTEAD if f"{flag} " in help_text] == []


def test_an_unknown_command_is_refused_with_the_nearest() -> None:
    code, output = run("serv")
    assert code == 2
    assert "serve" in output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--max-num-seqs", "0"),
        ("--port", "70000"),
        ("--admin-port", "http"),
        ("--max-num-seqs", "many"),
        ("--limits-file", "/nowhere/limits.json"),
        ("--log-level", "loud"),
        ("--dtype", "float64"),
        ("--seed", str(2**63)),
        ("--seed", "-1"),
        ("--slo-ttft-ms", "nan"),
        ("--slo-itl-ms", "inf"),
        ("--queue-deadline-ms", "nan"),
        ("--shutdown-timeout", "inf"),
        ("--drain-grace", "nan"),
        ("--served-model-name", ""),
    ],
)
def test_values_that_cannot_be_are_refused(served, arguments) -> None:
    code, output = run("serve", "m", *arguments)
    assert code == 2
    assert arguments[0].removeprefix("--") in output
    assert served == []


def test_flags_and_environment_make_one_configuration(served) -> None:
    code, output = run(
        *(
            "serve",
            "dir/model",
            "--max-num-seqs",
            "7",
            "--served-model-name",
            "a",
            "--served-model-name",
            "b",
        ),
        *("--no-enable-prefix-caching", "--queue-deadline-ms", "1500", "--slo-ttft-ms", "250"),
        env={"HEADRACE_MAX_NUM_SEQS": "9", "HEADRACE_MAX_NUM_BATCHED_TOKENS": "64", "HEADRACE_POD_UID": "u1"},
    )
    assert code == 0, output
    config = served[0]
    assert (config.max_num_seqs, config.max_num_batched_tokens, config.admin.pod_uid) == (7, 64, "u1")
    assert config.names == ("a", "b")
    assert config.enable_prefix_caching is False
    assert (config.queue_deadline_s, config.slo.ttft_s, config.slo.itl_s) == (1.5, 0.25, None)


def test_a_model_is_served_by_its_directorys_name(served, tmp_path, monkeypatch) -> None:
    (tmp_path / "smollm2" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "smollm2" / "sub")
    for model in ("/models/smollm2/", "smollm2", "..", "../../smollm2", "../.."):
        run("serve", model)
    names = [name for config in served for name in config.names]
    assert names == ["smollm2", "smollm2", "smollm2", "smollm2", tmp_path.name]


def test_a_drain_goes_on_serving_for_as_long_as_endpoints_lag(served) -> None:
    run("serve", "m")
    run("serve", "m", "--drain-grace", "0", "--log-level", "debug")
    assert [config.drain_grace_s for config in served] == [5.0, 0.0]


def test_the_order_of_admission_and_the_keys_of_clients_are_flags(served, tmp_path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text("{}")
    code, output = run("serve", "m", "--scheduling-policy", "fair", "--api-keys", str(keys))
    assert code == 0, output
    assert (served[0].scheduling_policy, served[0].api_keys) == ("fair", keys)
    assert run("serve", "m", "--scheduling-policy", "static")[0] == 2


def test_the_port_that_kubernetes_puts_into_every_pod_is_not_ours(served) -> None:
    """A Service named `headrace` gives its neighbors HEADRACE_PORT=tcp://..."""
    code, output = run("serve", "m", env={"HEADRACE_PORT": "tcp://10.96.0.7:8000"})
    assert code == 0, output
    assert served[0].port == 8000


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("headrace_engine.no_such_cli", "the broken commands are not available"),
        ("package_of_an_extra_that_is_not_installed.cli", ""),
    ],
)
def test_a_broken_package_costs_only_its_own_commands(module, told) -> None:
    code = (
        "import importlib.metadata as m, headrace_cli.main as c\n"
        f"broken = m.EntryPoint('broken', {module!r}, c.GROUP)\n"
        "found = c.entry_points\n"
        "c.entry_points = lambda group: [*found(group=group), broken]\n"
        "c.build()(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert told in done.stderr
    assert bool(told) == bool(done.stderr)


def test_sigterm_is_heard_before_the_command_is_ready_for_it() -> None:
    """As the first process of a container, it would not be without a handler."""
    code = (
        "import os, signal, headrace_cli.main as c\n"
        "c.build = lambda: lambda: os.kill(os.getpid(), signal.SIGTERM)\n"
        "c.main()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 128 + signal.SIGTERM


def test_one_processor_is_left_to_http_where_there_are_enough() -> None:
    assert [compute_threads(cpus) for cpus in (1, 2, 3, 8)] == [1, 2, 2, 7]


def test_the_root_is_built_anew_each_time() -> None:
    assert isinstance(build(), typer.Typer)
    assert build() is not build()
