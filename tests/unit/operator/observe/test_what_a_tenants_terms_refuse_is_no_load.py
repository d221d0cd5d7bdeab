"""A tenant that knocks without end at its own limits buys no replica, and hides nobody's need of one."""

from headrace_engine.telemetry.metrics import REJECTION_REASONS
from headrace_operator.observe.exposition import parse
from headrace_operator.observe.sample import sample
from headrace_operator.runtimes.metric_map import HEADRACE, NO_LOAD, SHED, Counter

TOLD = """
# TYPE headrace_requests_received_total counter
headrace_requests_received_total{model_name="m"} 1000
# TYPE headrace_request_rejections_total counter
"""


def counters(**refused):
    lines = (
        f'headrace_request_rejections_total{{model_name="m",reason="{reason}"}} {count}\n'
        for reason, count in refused.items()
    )
    text = (TOLD + "".join(lines)).encode()
    return sample(parse(text, wanted=HEADRACE.wanted), metrics=HEADRACE, at_s=1.0).counters


def test_what_is_refused_by_a_rate_did_not_arrive_and_was_not_shed():
    found = counters(tenant_requests_per_minute=900, tenant_tokens_per_minute=50, queue_full_requests=10)
    assert (found[Counter.ARRIVALS], found[Counter.REJECTIONS]) == (50, 10)


def test_what_capacity_would_have_served_did_arrive():
    found = counters(queue_full_requests=10, queue_deadline=5)
    assert (found[Counter.ARRIVALS], found[Counter.REJECTIONS]) == (1000, 15)


def test_more_refusals_than_requests_tell_nothing():
    assert Counter.ARRIVALS not in counters(tenant_requests_per_minute=1001)


def test_every_reason_of_the_engine_is_one_or_the_other():
    """But `draining`: those requests go to another replica."""
    assert {*SHED, *NO_LOAD, "draining"} == set(REJECTION_REASONS)
    assert not {*SHED} & {*NO_LOAD}
