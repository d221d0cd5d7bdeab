"""Argv and files of a rendered pod, read by the engine's own parsers: neither side knows a name alone."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import orjson
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from operator_builders import service
from operator_strategies import service_of, spec_documents
from typer.core import TyperGroup
from typer.exceptions import TyperException

from headrace_cli.main import build
from headrace_engine.core.contract import Contract, Terms
from headrace_engine.server.admin_routes import ADMIN_BODY
from headrace_engine.server.api_keys import Tenancy
from headrace_engine.server.json_body import parse_object
from headrace_operator.api.spec import Limits, Runtime
from headrace_operator.api.tenants_resource import MAX_TENANTS
from headrace_operator.observe.admin import MAX_REPLY_BYTES
from headrace_operator.render.children import children
from headrace_operator.runtimes.terms import change_of_terms, contract

ROOT = typer.main.get_command(build())
CONFIG = "/etc/headrace/"


def pod_and_files(spec):
    made = {
        manifest["kind"]: manifest
        for manifest in children(
            spec, replicas=1, limits=Limits(8, 512), image="i", admin_keys='{"keys": []}'
        )
    }
    return made["Deployment"]["spec"]["template"]["spec"], made["ConfigMap"]["data"]


def parse(arguments: list[str]) -> None:
    """What `headrace ARGUMENTS` would understand, without doing it. Raises `TyperException`."""
    command, rest = ROOT, [argument.replace("$$", "$") for argument in arguments]
    while isinstance(command, TyperGroup):
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context("headrace", rest)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("etc")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec_documents())
def test_every_flag_is_one_that_it_knows(directory: Path, document):
    document["engine"].pop("args", None)
    spec = service_of(document)
    if spec.engine.runtime is not Runtime.HEADRACE:
        return
    pod, files = pod_and_files(spec)
    for name, content in files.items():
        (directory / name).write_text(content)
    containers = (*pod.get("initContainers", ()), *pod["containers"])
    for container in containers:
        parse([argument.replace(CONFIG, f"{directory}/") for argument in container["args"]])


def test_a_flag_that_it_does_not_know_is_refused():
    with pytest.raises(TyperException, match="No such option"):
        parse(["serve", "tiny", "--max-num-sequences", "3"])


def test_its_tenants_are_those_that_the_spec_names(tmp_path: Path):
    terms = {
        "keys": {64 * "a": "acme"},
        "default": {"weight": 2},
        "items": [
            {
                "name": "acme",
                "weight": 8,
                "minShare": "0.25",
                "limits": {"maxNumSeqs": 4, "requestsPerMinute": 60},
                "slo": {"ttft": "1.5s", "queueDeadline": "20s"},
            }
        ],
    }
    _, files = pod_and_files(service({"tenants": terms}))
    file = tmp_path / "api-keys.json"
    file.write_text(files["api-keys.json"])
    found = Tenancy.read(file)
    assert found.tenants == {bytes.fromhex(64 * "a"): "acme"}
    assert found.contract.of("acme") == Terms(
        weight=8,
        max_num_seqs=4,
        requests_per_minute=60,
        min_share=0.25,
        ttft_ms=1500,
        queue_deadline_ms=20_000,
    )
    assert found.contract.of("another") == Terms(weight=2)
    assert found.contract.digest == contract(service({"tenants": terms}).tenants).digest, (
        "so nobody is called"
    )


def test_all_tenants_that_a_service_may_have_can_be_renamed_at_once():
    """The call that does it, and the reply to it, are as large as they get."""
    longest = Terms(*(1000.0, 65_536, 10**6, 2**31 - 1, -20, -20), *(2**31 - 1,) * 4)
    least = replace(longest, min_share=1 / 3 / MAX_TENANTS)
    held, wanted = (
        Contract({f"{letter}{number:063}": least for number in range(MAX_TENANTS)}, longest, 1000)
        for letter in "ab"
    )
    limits = Limits(65_536, 4_194_304)
    change = orjson.dumps(asdict(limits) | {"tenants": change_of_terms(asdict(held), wanted)})
    assert held.changed(parse_object(change, ADMIN_BODY)["tenants"]) == wanted
    assert len(orjson.dumps(asdict(held))) < MAX_REPLY_BYTES - 4096


def test_without_tenants_it_lets_everybody_in(tmp_path: Path):
    file = tmp_path / "api-keys.json"
    file.write_text(pod_and_files(service())[1]["api-keys.json"])
    assert Tenancy.read(file).tenants is None


def test_its_limits_are_those_in_force():
    _, files = pod_and_files(service())
    assert json.loads(files["limits.json"]) == {"max_num_seqs": 8, "max_num_batched_tokens": 512}
