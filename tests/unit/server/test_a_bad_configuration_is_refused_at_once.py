"""What can be seen to be wrong before the model is loaded is said then, with exit code 2."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_engine.core.limits import Limits
from headrace_engine.server.admin_credentials import AdminCredentials
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.loading import starting_limits
from headrace_engine.server.main import BAD_CONFIGURATION, run


@pytest.fixture
def logs(capfd) -> Iterator[pytest.CaptureFixture[str]]:
    """What goes to standard error; the root logger is put back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield capfd
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("host", ["203.0.113.7", "no such host", "::ffff:203.0.113.7"])
def test_an_address_that_is_not_this_machines(logs, host) -> None:
    assert run(ServeConfig(model="m", host=host), log_level="INFO") == BAD_CONFIGURATION
    assert host in json.loads(logs.readouterr().err.splitlines()[-1])["reason"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "Expecting property name"),
        (b"[]", "no JSON object"),
        (b"\xff\xfe", "utf-8"),
        (b'{"max_num_seqs": "4"}', "max_num_seqs: takes an integer"),
        (b'{"max_num_seqs": 0}', "max_num_seqs: takes 1 to 128"),
        (b'{"max_seqs": 4}', "max_seqs: is no limit; the limits are"),
    ],
)
def test_a_limits_file_that_cannot_be_meant(logs, tmp_path, content, reason) -> None:
    path = tmp_path / "limits.json"
    path.write_bytes(content)
    assert run(ServeConfig(model="m", limits_file=path), log_level="INFO") == BAD_CONFIGURATION
    said = json.loads(logs.readouterr().err.splitlines()[-1])["reason"]
    assert str(path) in said
    assert reason in said


@pytest.mark.parametrize("flag", ["api_keys", "public_keys", "token_file"])
@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff"])
def test_a_file_of_credentials_that_lets_nobody_in(logs, tmp_path, flag, content) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    config = ServeConfig(model="m", api_keys=path)
    if flag != "api_keys":
        config = ServeConfig(model="m", admin=AdminCredentials(**{flag: path}, pod_uid="u"))
    assert run(config, log_level="INFO") == BAD_CONFIGURATION
    assert str(path) in json.loads(logs.readouterr().err.splitlines()[-1])["reason"]


@pytest.mark.parametrize("name", ["", "a" * 257, "a b", "<script>", 'a"b', "a\nb", "a\\b", "a{b}"])
def test_a_name_that_somebody_would_have_to_escape(name) -> None:
    with pytest.raises(ValueError, match="--served-model-name"):
        ServeConfig(model="m", served_model_names=(name,)).check()
    ServeConfig(model="/models/Qwen2.5-0.5B", served_model_names=("Qwen/Qwen2.5-0.5B", "größe")).check()


def limits_of(directory: Path, document: object) -> Limits:
    path = directory / "limits.json"
    path.write_text(json.dumps(document))
    return starting_limits(ServeConfig(model="m", max_num_seqs=16, max_num_queued_reqs=9, limits_file=path))


def test_the_limits_file_goes_over_the_flags_and_within_the_capacity(tmp_path, caplog) -> None:
    assert limits_of(tmp_path, {}) == Limits(16, 2048, max_num_queued_reqs=9)
    limits = limits_of(tmp_path, {"max_num_seqs": 64, "max_num_queued_reqs": 500})
    assert (limits.max_num_seqs, limits.max_num_queued_reqs) == (16, 500)
    assert [vars(record)["limit"] for record in caplog.records] == ["max_num_seqs"]


def test_every_limit_that_may_change_later_can_be_said_at_the_start(tmp_path) -> None:
    flags = {"long_prefill_token_threshold": 256, "max_num_partial_prefills": 2, "max_step_ms": 40}
    limits = starting_limits(ServeConfig(model="m", **flags))
    assert {name: getattr(limits, name) for name in flags} == flags
    path = tmp_path / "limits.json"
    path.write_text('{"max_step_ms": 20}')
    assert starting_limits(ServeConfig(model="m", **flags, limits_file=path)).max_step_ms == 20


def test_connections_never_take_the_files_that_probes_need() -> None:
    roomy, tight = HttpLimits.of(1152, 1 << 20), HttpLimits.of(1152, 1024)
    assert (roomy.max_connections, roomy.max_connections_per_address) == (2304, 1152)
    assert tight.max_connections + 100 < 1024
    assert tight.max_connections_per_address == tight.max_connections // 2
    assert roomy.keep_alive_s > 5  # how long httpx keeps an idle connection, and with it OpenAI's client
    assert HttpLimits.of(1, 1 << 20).max_connections_per_address == 64
