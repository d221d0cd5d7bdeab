"""Of what an engine refuses, the operator weighs what more capacity would have served, and nothing else."""

import pytest

from headrace_engine.telemetry.metrics import REJECTION_REASONS
from headrace_operator.observe.exposition import parse
from headrace_operator.observe.sample import sample
from headrace_operator.runtimes.metric_map import HEADRACE, Counter

FOR_WANT_OF_CAPACITY = {"queue_full_requests", "queue_full_tokens", "queue_deadline"}


@pytest.mark.parametrize("reason", REJECTION_REASONS)
def test_a_refusal_counts_only_for_want_of_capacity(reason) -> None:
    name = "headrace_request_rejections_total"
    lines = [f'{name}{{reason="{each}"}} {7 if each == reason else 0}' for each in REJECTION_REASONS]
    page = "\n".join([f"# TYPE {name} counter", *lines]).encode()

    found = sample(parse(page, wanted=HEADRACE.wanted), metrics=HEADRACE, at_s=0.0)

    assert found.counters[Counter.REJECTIONS] == (7 if reason in FOR_WANT_OF_CAPACITY else 0)
