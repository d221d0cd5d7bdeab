"""What vLLM exports is here under its name, type, labels and buckets, or is left out with why."""

from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from headrace_engine.telemetry.metrics import SLO, Metrics

RECORDED = Path(__file__).parents[2] / "recordings" / "vllm-0.32.0-idle.txt"
NOTHING_SUCH_HERE = {
    "vllm:engine_sleep_state": "an engine never sleeps",
    "vllm:external_prefix_cache_queries": "KV comes from no other engine yet",
    "vllm:external_prefix_cache_hits": "KV comes from no other engine yet",
    "vllm:mm_cache_queries": "no images and no audio",
    "vllm:mm_cache_hits": "no images and no audio",
    "vllm:estimated_flops_per_gpu": "nothing is computed on a GPU",
    "vllm:estimated_read_bytes_per_gpu": "nothing is computed on a GPU",
    "vllm:estimated_write_bytes_per_gpu": "nothing is computed on a GPU",
}
VALUES_OF_OURS = {"vllm:cache_config_info"}
"""Whose labels are settings, of which each engine has its own."""


def families(exposition: str) -> dict[str, Metric]:
    found = text_string_to_metric_families(exposition)
    return {
        each.name: each for each in found if each.name.startswith("vllm:") and "_created" not in each.name
    }


THEIRS = families(RECORDED.read_text())


@pytest.fixture(scope="module")
def ours() -> dict[str, Metric]:
    return families(Metrics(model_name="chat", max_model_len=1024, slo=SLO()).render().decode())


def labels(family: Metric) -> set[str]:
    return {name for sample in family.samples for name in sample.labels}


def bounds(family: Metric) -> set[float]:
    return {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}


def test_a_family_is_left_out_for_a_reason_alone(ours) -> None:
    assert THEIRS.keys() - ours.keys() == set(NOTHING_SUCH_HERE)
    assert len(THEIRS) > 30


@pytest.mark.parametrize("name", sorted(THEIRS.keys() - NOTHING_SUCH_HERE.keys() - VALUES_OF_OURS))
def test_a_family_is_what_it_is_there(ours, name) -> None:
    mine, theirs = ours[name], THEIRS[name]
    assert (mine.type, labels(mine)) == (theirs.type, labels(theirs))
    assert bounds(mine) >= {bound for bound in bounds(theirs) if bound <= 1024 or bound == float("inf")}
