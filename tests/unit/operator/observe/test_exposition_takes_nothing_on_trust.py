"""The text that pods serve as metrics: what is read of it, and what a hostile pod cannot do with it."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headrace_operator.observe.exposition import (
    MAX_LABELS,
    MAX_LINE_BYTES,
    MAX_SERIES,
    ExpositionError,
    parse,
)


def values(body: bytes, *wanted: str) -> dict[str, list[float]]:
    return {
        name: [sample.value for sample in samples]
        for name, samples in parse(body, wanted=wanted).samples.items()
    }


def test_it_reads_what_the_client_library_writes():
    registry = CollectorRegistry()
    Counter("served", "Requests.", ["outcome"], registry=registry).labels('a"b\\c\nd').inc(3)
    Gauge("running", "Now.", registry=registry).set(1.5)
    Histogram("wait_seconds", "Queue.", buckets=(0.1, 1), registry=registry).observe(0.5)
    found = parse(
        generate_latest(registry),
        wanted=["served_total", "running", "wait_seconds_bucket", "wait_seconds_count"],
    )
    [served] = found.samples["served_total"]
    assert (served.value, served.labels) == (3, {"outcome": 'a"b\\c\nd'})
    assert [sample.value for sample in found.samples["running"]] == [1.5]
    buckets = {sample.labels["le"]: sample.value for sample in found.samples["wait_seconds_bucket"]}
    assert buckets == {"0.1": 0, "1.0": 1, "+Inf": 1}
    assert {"served_total", "running", "wait_seconds"} <= found.families


def test_only_the_wanted_series_are_read():
    assert values(b"a 1\nb 2\nab 3\n", "a") == {"a": [1]}


def test_values_that_nothing_of_ours_can_have_are_left_out_and_counted():
    body = b"a NaN\na +Inf\na -1\na 1e999\na 2\n"
    found = parse(body, wanted=["a"])
    assert [sample.value for sample in found.samples["a"]] == [2]
    assert found.implausible == 4


@given(st.text('a{}="\\ \t#,1e-', max_size=24))
def test_a_line_of_what_lines_are_made_of_is_read_or_refused(line):
    with suppress(ExpositionError):
        parse(f"a 1\n{line}\n".encode(), wanted=["a"])


@pytest.mark.parametrize("line", [" {x} 1", "\t{", "{", ' {x="1"} 2 3'])
def test_a_series_without_a_name_is_nobodys(line):
    assert values(f"a 1\n{line}\n".encode(), "a") == {"a": [1]}


def test_a_sample_with_a_time_of_its_own_is_not_of_now():
    assert values(b"a 1 99999999999999\n", "a") == {}


@pytest.mark.parametrize(
    "line",
    [
        b"a",
        b"a x",
        b"a 1_000",
        b"a 0x10",
        b"a{b=1} 1",
        b'a{b="1" 1',
        b'a{b="1"',
        b'a{b="1",b="2"} 1',
        b'a{b="1" c="2"} 1',
        b"a 1 2 3",
        b'a{b="\xff"} 1',
        b'a{="1"} 1',
    ],
)
def test_a_wanted_line_that_breaks_the_format_fails_the_scrape(line: bytes):
    with pytest.raises(ExpositionError):
        parse(line, wanted=["a"])


def test_an_overlong_line_fails_the_scrape_unread():
    with pytest.raises(ExpositionError, match=str(MAX_LINE_BYTES)):
        parse(b"unwanted" + b"x" * MAX_LINE_BYTES, wanted=["a"])


def test_too_many_labels_fail_the_scrape():
    labels = ",".join(f'l{i}="v"' for i in range(MAX_LABELS + 1))
    with pytest.raises(ExpositionError, match="labels"):
        parse(f"a{{{labels}}} 1".encode(), wanted=["a"])


def test_too_many_series_fail_the_scrape():
    with pytest.raises(ExpositionError, match="series"):
        parse(b"x 1\n" * (MAX_SERIES + 1), wanted=["a"])


@pytest.mark.parametrize(
    "body",
    [
        b"".join(b'a{b="%d"} %d\n' % (i, i) for i in range(MAX_SERIES)),
        (b'a{b="' + b"y" * 16_000 + b'"} 1\n') * 255,
        (b'a{b="' + b'\\"' * 7_000 + b'"} 1\n') * 255,
        b"\n" * (4 * 1024 * 1024),
        b"# " * (2 * 1024) + b"\n" + b"#\n" * (2 * 1024 * 1024 - 2 * 1024),
    ],
    ids=["every series wanted", "long values", "escapes", "empty lines", "comments"],
)
def test_the_worst_that_fits_the_bounds_is_read_quickly(body: bytes):
    started_s = time.process_time()
    parse(body, wanted=["a"])
    assert time.process_time() - started_s < 6.0, "it takes 0.3 s; in proportion to the square, minutes"


@given(st.binary(max_size=2000))
def test_any_bytes_give_samples_or_the_one_error(body: bytes):
    with suppress(ExpositionError):
        parse(body, wanted=["a", "b_bucket"])


NAMES = st.sampled_from(["a", "b"])
LABELS = st.dictionaries(
    st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), st.text(max_size=20), max_size=4
)


@given(st.lists(st.tuples(NAMES, LABELS, st.floats(0, 1e18)), max_size=20))
def test_what_is_written_by_the_format_is_read_back(series: list[tuple[str, dict[str, str], float]]):
    def escape(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    lines = [
        name
        + "{"
        + ",".join(f'{label}="{escape(text)}"' for label, text in labels.items())
        + "} "
        + repr(value)
        for name, labels, value in series
    ]
    found = parse("\n".join(lines).encode(), wanted=["a", "b"])
    for name in ("a", "b"):
        read = [(dict(sample.labels), sample.value) for sample in found.samples.get(name, [])]
        assert read == [(labels, value) for other, labels, value in series if other == name]
