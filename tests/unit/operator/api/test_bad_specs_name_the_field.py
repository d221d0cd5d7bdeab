"""An object that predates a rule is refused by the operator as the API server would have refused it."""

from pathlib import Path

import pytest
import yaml
from operator_builders import resource, service
from operator_manifests import BAD_NAMES, BAD_SPECS, without_nulls

from headrace_operator.api.parsing import parse
from headrace_operator.api.spec import Invalid, ServiceSpec


@pytest.mark.parametrize("case", BAD_SPECS)
def test_a_bad_spec_is_invalid_and_names_the_field(case):
    changes, field = BAD_SPECS[case]
    parsed = parse(without_nulls(resource(changes)))
    assert isinstance(parsed, Invalid)
    assert parsed.reason == "InvalidSpec"
    assert field in parsed.message


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_invalid(name):
    parsed = parse(resource(name=name))
    assert isinstance(parsed, Invalid)
    assert "metadata.name" in parsed.message


def test_every_default_is_filled_in():
    parsed = parse({**resource(), "spec": {"model": {"uri": "hf://org/name"}}})
    assert isinstance(parsed, ServiceSpec)
    assert parsed.model.served_name == "chat"
    assert parsed.engine.capacity.max_num_seqs == 256
    assert (parsed.tuning.max_num_seqs.low, parsed.tuning.max_num_seqs.high) == (8, 256)
    assert (parsed.slo.window_s, parsed.tuning.interval_s) == (300.0, 60.0)
    assert parsed.scaling.max_replicas == parsed.scaling.min_replicas == 1


def test_a_small_engine_has_small_bounds():
    parsed = parse(
        {**resource(), "spec": {"model": {"uri": "hf://o/n"}, "engine": {"limits": {"maxNumSeqs": 4}}}}
    )
    assert isinstance(parsed, ServiceSpec)
    assert (parsed.tuning.max_num_seqs.low, parsed.tuning.max_num_seqs.high) == (4, 4)


EXAMPLES = sorted((Path(__file__).parents[4] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_is_a_service(file):
    parsed = parse(yaml.safe_load(file.read_text()))
    assert isinstance(parsed, ServiceSpec), parsed


def test_a_gpu_budget_bounds_the_replicas():
    spec = service({"engine": {"gpu": {"count": 1}}, "scaling": {"maxReplicas": 8, "gpuBudget": 3}})
    assert (spec.scaling.max_replicas, spec.scaling.is_bound_by_gpus) == (3, True)


@pytest.mark.parametrize(
    ("model", "is_pinned"),
    [
        ({"uri": "hf://org/name"}, False),
        ({"uri": "hf://org/name", "revision": "main"}, False),
        ({"uri": "hf://org/name", "revision": 40 * "a"}, True),
        ({"uri": "pvc://models/tiny"}, True),
    ],
)
def test_only_a_commit_pins_a_downloaded_model(model, is_pinned):
    assert service({"model": model}).model.is_pinned is is_pinned
