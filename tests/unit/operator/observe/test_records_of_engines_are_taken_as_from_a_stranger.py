"""One answer of an engine's telemetry, honest and not, and what is told of many."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_operator.api.status_resource import ObservedStatus
from headrace_operator.decide.record import observed_document
from headrace_operator.observe.feed_page import MOST_TOKENS, PageError, page
from headrace_operator.observe.sample import PodSample
from headrace_operator.observe.tally import Tally
from headrace_operator.observe.windows import ServiceWindows

NOW_S = 1_800_000_000.0
LIMIT = 50


def request(ended_s: float = 90.0, **changed):
    record = {"ended_s": ended_s, "prompt_tokens": 40, "cached_tokens": 10, "output_tokens": 8}
    return record | {"outcome": "stop"} | changed


def step(ended_s: float = 90.0, **changed):
    record = {"ended_s": ended_s, "duration_s": 0.02, "prefill_tokens": 30, "decode_tokens": 4}
    return record | changed


def answer(**changed):
    document = {"cursor": "0a1b2c3d.5.1", "more": False, "lost": {"steps": 0, "requests": 0}, "now_s": 100.0}
    return document | {"steps": [step()], "requests": [request()]} | changed


def observed(*documents, at_s: float = NOW_S, now_s: float = NOW_S, window_s: float = 300.0):
    """`status.observed` of a service whose engines said so."""
    windows = ServiceWindows()
    windows.record("pod", PodSample(now_s - 1, {}, {}, {}), longest_break_s=window_s, retention_s=window_s)
    for document in documents:
        windows.records.add(page(document, limit=LIMIT), at_s=at_s, retention_s=window_s)
    window = windows.window(start_s=now_s - window_s, now_s=now_s, ready_uids=(), fresh_s=6.0)
    found = dict(observed_document(window, None))
    ObservedStatus.model_validate(found)
    return found


def test_the_status_tells_how_long_prompts_and_answers_are_and_how_long_steps_take():
    requests = [request(prompt_tokens=100, output_tokens=20)] * 18 + [request(prompt_tokens=3000)] * 2
    steps = [step(), step(duration_s=0.5, prefill_tokens=512, decode_tokens=0, ended_s=95.0)]
    found = observed(answer(requests=requests, steps=steps))
    assert found["mix"] == {
        "at": "2027-01-15T07:59:50Z",
        "requests": 20,
        "promptTokensP50": 100,
        "promptTokensP95": 3000,
        "outputTokensP50": 20,
        "outputTokensP95": 20,
        "cachedShare": "0.03",
    }
    assert found["steps"] == {
        "at": "2027-01-15T07:59:55Z",
        "steps": 2,
        "durationP50": "20ms",
        "durationP95": "500ms",
        "tokensP95": 512,
    }


def test_without_records_the_status_says_nothing_of_them():
    assert observed().keys() & {"mix", "steps"} == set()
    assert observed(answer(steps=[], requests=[])).keys() & {"mix", "steps"} == set()


def test_what_was_refused_aborted_or_expired_is_no_part_of_the_mix():
    outcomes = ["stop", "length", "abort", "expired", "error", "queue_full"]
    found = observed(answer(requests=[request(outcome=outcome) for outcome in outcomes]))
    assert found["mix"]["requests"] == 2


def test_a_record_counts_where_it_ended_and_not_where_it_was_read():
    late = answer(now_s=1000.0, requests=[request(990.0), request(500.0)], steps=[])
    assert observed(late, window_s=300.0)["mix"]["requests"] == 1
    assert observed(late, window_s=600.0)["mix"]["requests"] == 2
    assert "mix" not in observed(late, at_s=NOW_S - 400, window_s=300.0)


@pytest.mark.parametrize(
    "changed",
    [
        {"cursor": None},
        {"cursor": "a&limit=1"},
        {"cursor": "a" * 65},
        {"now_s": math.nan},
        {"now_s": "100"},
        {"steps": {}},
        {"requests": [request()] * (LIMIT + 1)},
    ],
    ids=str,
)
def test_an_answer_without_a_cursor_a_clock_or_a_bound_is_left_out(changed):
    with pytest.raises(PageError):
        page(answer(**changed), limit=LIMIT)


@pytest.mark.parametrize(
    "record",
    [
        request(prompt_tokens=-1),
        request(prompt_tokens=MOST_TOKENS + 1),
        request(prompt_tokens=True),
        request(prompt_tokens=1.0),
        request(prompt_tokens="40"),
        request(cached_tokens=41),
        request(ended_s=101.0),
        request(ended_s=None),
        request(outcome=None),
        [],
        None,
    ],
    ids=str,
)
def test_a_record_that_no_engine_wrote_is_missing_and_never_zero(record):
    found = page(answer(requests=[record, request()]), limit=LIMIT)
    assert (len(found.requests), found.implausible) == (1, 1)


@pytest.mark.parametrize("changed", [{"duration_s": 1e9}, {"duration_s": math.inf}, {"decode_tokens": -1}])
def test_so_is_a_step(changed):
    found = page(answer(steps=[step(**changed)]), limit=LIMIT)
    assert (found.steps, found.implausible) == ((), 1)


@pytest.mark.parametrize(
    ("lost", "has_gap"),
    [
        ({"steps": 0, "requests": 0}, False),
        ({"steps": 3, "requests": 0}, True),
        ({"steps": 0}, True),
        (None, True),
        ("none", True),
    ],
)
def test_what_was_lost_and_a_new_start_are_gaps(lost, has_gap):
    assert page(answer(lost=lost), limit=LIMIT).has_gap is has_gap


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["stop", "", "7"]), st.just([])
)
RECORDS = st.one_of(
    SCALARS,
    st.builds(request, ended_s=SCALARS, prompt_tokens=SCALARS, cached_tokens=SCALARS, outcome=SCALARS),
    st.builds(request, output_tokens=SCALARS),
    st.builds(step, ended_s=SCALARS, duration_s=SCALARS, prefill_tokens=SCALARS),
)
ANSWERS = st.builds(
    answer,
    now_s=st.one_of(st.just(100.0), SCALARS),
    lost=SCALARS,
    more=SCALARS,
    steps=st.lists(RECORDS, max_size=4),
    requests=st.lists(RECORDS, max_size=4),
)


@given(st.lists(ANSWERS, max_size=3))
def test_whatever_a_pod_says_the_status_is_taken(documents):
    believed = []
    for document in documents:
        try:
            page(document, limit=LIMIT)
        except PageError:
            continue
        believed.append(document)
    observed(*believed)


@given(st.lists(st.integers(0, MOST_TOKENS), min_size=1, max_size=40), st.sampled_from([0.5, 0.95]))
def test_a_quantile_is_off_by_a_tenth_at_most(values, q):
    tally = Tally()
    for value in values:
        tally.add(value)
    exact = sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
    assert abs(Tally.of([tally]).quantile(q) - exact) <= 0.1 * exact


def test_memory_is_bounded_by_the_window_and_not_by_the_load():
    windows = ServiceWindows()
    for at_s in range(0, 4000, 10):
        windows.records.add(page(answer(), limit=LIMIT), at_s=NOW_S + at_s, retention_s=300.0)
    assert len(windows.records._slots) <= 300 / 20 + 2
