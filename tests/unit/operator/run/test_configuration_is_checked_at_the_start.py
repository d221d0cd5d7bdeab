"""Flags, variables, and what is said of a wrong one."""

import json
import logging
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headrace_operator.cli import register
from headrace_operator.config import ConfigError, OperatorConfig
from headrace_operator.kube.elector import LeaseTiming
from headrace_operator.run.log import JsonFormatter


@pytest.fixture
def command() -> typer.Typer:
    root = typer.Typer()
    register(root)
    return root


def load(**flags):
    return OperatorConfig.load({"HEADRACE_OPERATOR_ENGINE_IMAGE": "engine:1"}, **flags)


def test_the_engine_s_image_is_all_that_must_be_said():
    config = load()
    assert config.engine_image == "engine:1"
    assert (config.watch_namespaces, config.admin_key_file, config.kubeconfig) == ((), None, None)
    assert (config.scrape_interval_s, config.reconcile_interval_s, config.http_port) == (2, 5, 8080)


def test_variables_are_read_and_a_flag_wins_over_its_variable():
    variables = {
        "HEADRACE_OPERATOR_ENGINE_IMAGE": "engine:1",
        "HEADRACE_OPERATOR_WATCH_NAMESPACES": "a, b,",
        "HEADRACE_OPERATOR_ADMIN_KEY_FILE": "/key/admin.pem",
        "HEADRACE_OPERATOR_HTTP_PORT": "9000",
        "HEADRACE_OPERATOR_LOG_LEVEL": "",
        "HEADRACE_OPERATOR_SOMETHING_LATER": "x",
    }
    config = OperatorConfig.load(variables, http_port=9001, log_level=None)
    assert config.watch_namespaces == ("a", "b")
    assert config.admin_key_file == Path("/key/admin.pem")
    assert (config.http_port, config.log_level) == (9001, "info")


def test_what_the_chart_writes_as_json_is_read():
    variables = {
        "HEADRACE_OPERATOR_ENGINE_IMAGE": "engine:1",
        "HEADRACE_OPERATOR_METRICS_FROM": '[{"namespaceSelector": {}}]',
        "HEADRACE_OPERATOR_POD_MONITORS": "true",
        "HEADRACE_OPERATOR_POD_MONITOR_LABELS": '{"release": "prometheus"}',
    }
    config = OperatorConfig.load(variables)
    assert config.metrics_from == ({"namespaceSelector": {}},)
    assert (config.pod_monitors, config.pod_monitor_labels) == (True, {"release": "prometheus"})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SCRAPE_INTERVAL_S", "0"),
        ("HTTP_PORT", "x"),
        ("LOG_LEVEL", "loud"),
        ("LEASE_DURATION_S", "1"),
        ("METRICS_FROM", "["),
    ],
)
def test_a_wrong_variable_is_named(variable, value):
    with pytest.raises(ConfigError, match=f"HEADRACE_OPERATOR_{variable}"):
        OperatorConfig.load({"HEADRACE_OPERATOR_ENGINE_IMAGE": "e", f"HEADRACE_OPERATOR_{variable}": value})


def test_the_command_says_what_is_missing_and_ends_with_2(command):
    result = CliRunner().invoke(command, ["operator", "run"], env={"HEADRACE_OPERATOR_ENGINE_IMAGE": ""})
    assert result.exit_code == 2
    assert "HEADRACE_OPERATOR_ENGINE_IMAGE" in result.output


def test_outside_a_pod_the_command_asks_for_a_kubeconfig(command):
    env = {"HEADRACE_OPERATOR_ENGINE_IMAGE": "e", "KUBERNETES_SERVICE_HOST": ""}
    result = CliRunner().invoke(command, ["operator", "run"], env=env)
    assert result.exit_code == 2
    assert "--kubeconfig" in result.output


def test_a_lease_of_another_duration_keeps_its_proportions():
    timing = LeaseTiming.of(30)
    assert (timing.duration_s, timing.renew_deadline_s, timing.retry_s, timing.margin_s) == (30, 20, 4, 4)
    assert LeaseTiming.of(15.2).duration_s == 15, "the Lease holds whole seconds"


def test_a_log_line_is_one_json_object_whatever_is_in_it():
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "name %s", ("a\nb\x1b[31m",), None)
    record.key = "default/chat"
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert "\x1b" not in line
    entry = json.loads(line)
    assert (entry["message"], entry["level"], entry["key"]) == ("name a\nb\x1b[31m", "info", "default/chat")
