"""Scrapes of a service's pods, told as a story in seconds."""

from dataclasses import replace

import pytest

from headrace_operator.observe.sample import Buckets, PodSample
from headrace_operator.observe.windows import ServiceWindows
from headrace_operator.runtimes.metric_map import Counter, Distribution, Gauge

FRESH_S = 6.0


def scrape(
    at_s: float, *, arrivals: float | None = None, waits: Buckets | None = None, **gauges: float
) -> PodSample:
    return PodSample(
        at_s=at_s,
        counters={} if arrivals is None else {Counter.ARRIVALS: arrivals},
        distributions={} if waits is None else {Distribution.QUEUE_TIME: waits},
        gauges={Gauge(name): value for name, value in gauges.items()},
    )


def story(*scrapes: tuple[str, PodSample], longest_break_s: float = 60) -> ServiceWindows:
    windows = ServiceWindows()
    for pod, sample in scrapes:
        windows.record(pod, sample, longest_break_s=longest_break_s, retention_s=600)
    return windows


def window(windows: ServiceWindows, *, start_s: float = 0, now_s: float, ready: tuple[str, ...] = ("p",)):
    found = windows.window(start_s=start_s, now_s=now_s, ready_uids=ready, fresh_s=FRESH_S)
    assert found is not None
    return found


def test_a_counter_tells_what_came_between_the_oldest_and_the_newest_scrape():
    windows = story(("p", scrape(10, arrivals=100)), ("p", scrape(12, arrivals=107)))
    assert window(windows, now_s=12).arrivals == 7


def test_only_samples_from_the_start_on_count():
    windows = story(*(("p", scrape(at, arrivals=at * 10)) for at in (10, 20, 30)))
    found = window(windows, start_s=15, now_s=30)
    assert (found.arrivals, found.start_s, found.end_s, found.span_s) == (100, 20, 30, 10)


def test_a_clock_that_is_set_back_leaves_nothing_that_looks_fresh():
    windows = story(
        ("p", scrape(10_000, arrivals=10)),
        ("gone", scrape(10_002, arrivals=90)),
        ("p", scrape(5_000, arrivals=12)),
        ("p", scrape(5_002, arrivals=15)),
    )
    found = window(windows, now_s=5_002)
    assert (found.end_s, found.arrivals, windows.observing_since_s) == (5_002, 3, 5_000)


def test_a_scrape_that_comes_late_is_left_out():
    windows = story(
        ("p", scrape(10, arrivals=10)), ("q", scrape(12, arrivals=1)), ("q", scrape(11, arrivals=5))
    )
    found = window(windows, now_s=12)
    assert (found.end_s, found.arrivals) == (12, 0)


def test_a_restarted_engine_neither_loses_nor_invents_a_request():
    windows = story(
        ("p", scrape(10, arrivals=100, start_time_s=1)),
        ("p", scrape(12, arrivals=110, start_time_s=1)),
        ("p", scrape(14, arrivals=3, start_time_s=13)),
        ("p", scrape(16, arrivals=5, start_time_s=13)),
    )
    assert window(windows, now_s=16).arrivals == 15


def test_a_restart_is_seen_even_where_the_count_has_grown_past_the_old_one():
    windows = story(
        ("p", scrape(10, arrivals=2, start_time_s=1)), ("p", scrape(12, arrivals=5, start_time_s=11))
    )
    assert window(windows, now_s=12).arrivals == 5


def test_without_a_start_time_a_falling_count_is_a_restart():
    windows = story(("p", scrape(10, arrivals=100)), ("p", scrape(12, arrivals=4)))
    assert window(windows, now_s=12).arrivals == 4


def test_what_no_pod_reports_is_none_and_not_zero():
    found = window(story(("p", scrape(10)), ("p", scrape(12))), now_s=12)
    assert found.arrivals is None
    assert found.queue_time_s is None
    assert found.waiting is None


def test_pods_are_summed_also_one_that_is_gone():
    windows = story(
        ("gone", scrape(10, arrivals=0)),
        ("p", scrape(10, arrivals=0)),
        ("gone", scrape(12, arrivals=5)),
        ("p", scrape(20, arrivals=7)),
    )
    found = window(windows, now_s=20)
    assert found.arrivals == 12, "its requests arrived, whatever became of the pod"
    assert (found.pods_reporting, found.pods_expected) == (1, 1)


def test_a_ready_pod_that_stopped_answering_does_not_report():
    windows = story(("p", scrape(10)), ("q", scrape(10)), ("p", scrape(20)))
    found = window(windows, now_s=20, ready=("p", "q"))
    assert (found.pods_reporting, found.pods_expected) == (1, 2)


@pytest.mark.parametrize(("now_s", "gap_s"), [(30, 18), (60, 30)])
def test_the_longest_gap_reaches_to_the_present(now_s: float, gap_s: float):
    windows = story(*(("p", scrape(at)) for at in (10, 12, 30)))
    assert window(windows, now_s=now_s).longest_gap_s == gap_s


def test_one_pod_that_answers_closes_the_gap_of_another():
    windows = story(("p", scrape(10)), ("q", scrape(20)), ("p", scrape(30)))
    assert window(windows, now_s=30).longest_gap_s == 10


def test_gauges_are_means_over_time_and_the_queue_is_of_all_pods():
    windows = story(
        ("p", scrape(10, running=2, waiting=4, kv_used_ratio=0.2, oldest_waiting_age_s=9)),
        ("q", scrape(10, running=4, waiting=0, kv_used_ratio=0.8, oldest_waiting_age_s=0)),
        ("p", scrape(12, running=4, waiting=8, kv_used_ratio=0.4, oldest_waiting_age_s=1)),
        ("q", scrape(12, running=6, waiting=2, kv_used_ratio=0.6, oldest_waiting_age_s=0.5)),
    )
    found = window(windows, now_s=12, ready=("p", "q"))
    assert (found.running_per_pod, found.running_peak) == (4, 6)
    assert found.waiting == 7
    assert found.kv_used_ratio == pytest.approx(0.7)
    assert found.oldest_waiting_age_s == 1


def test_a_histogram_is_that_of_the_window_and_its_quantiles_are_interpolated():
    before = Buckets((0.1, 1.0), (90, 100), 100, 20.0)
    after = Buckets((0.1, 1.0), (100, 120), 120, 30.0)
    found = window(story(("p", scrape(10, waits=before)), ("p", scrape(12, waits=after))), now_s=12)
    assert found.queue_time_s is not None
    assert (found.queue_time_s.counts, found.queue_time_s.total, found.queue_time_s.sum) == (
        (10, 20),
        20,
        10.0,
    )
    assert found.queue_time_s.quantile(0.75) == pytest.approx(0.55)


def test_a_histogram_survives_a_restart():
    one, two, three = (
        Buckets((0.1, 1.0), (5, 10), 10, 1.0),
        Buckets((0.1, 1.0), (6, 14), 14, 2.0),
        Buckets((0.1, 1.0), (1, 2), 3, 5.0),
    )
    windows = story(
        ("p", scrape(10, waits=one)), ("p", scrape(12, waits=two)), ("p", scrape(14, waits=three))
    )
    found = window(windows, now_s=14).queue_time_s
    assert found is not None
    assert (found.counts, found.total) == ((2, 6), 7)


def test_pods_with_other_edges_are_summed_at_the_edges_that_both_have():
    empty = Buckets()
    windows = story(
        ("old", scrape(10, waits=empty)),
        ("new", scrape(10, waits=empty)),
        ("old", scrape(12, waits=Buckets((0.1, 1.0), (1, 2), 3, 1.0))),
        ("new", scrape(12, waits=Buckets((0.1, 0.5, 1.0), (1, 2, 3), 3, 1.0))),
    )
    found = window(windows, now_s=12).queue_time_s
    assert found is not None
    assert (found.upper_edges, found.counts, found.total) == ((0.1, 1.0), (2, 5), 6)


def test_the_first_observation_of_a_declared_histogram_counts():
    windows = story(
        ("p", scrape(10, waits=Buckets())), ("p", scrape(12, waits=Buckets((0.1,), (1,), 1, 0.05)))
    )
    found = window(windows, now_s=12).queue_time_s
    assert found is not None
    assert found.total == 1


def test_no_scrape_no_window():
    assert ServiceWindows().window(start_s=0, now_s=10, ready_uids=["p"], fresh_s=FRESH_S) is None
    assert story(("p", scrape(10))).window(start_s=11, now_s=12, ready_uids=["p"], fresh_s=FRESH_S) is None


def test_observing_begins_anew_after_a_long_silence_only():
    windows = story(("p", scrape(10)), ("p", scrape(60)), longest_break_s=60)
    assert windows.observing_since_s == 10
    windows.record("p", scrape(121), longest_break_s=60, retention_s=600)
    assert windows.observing_since_s == 121


def test_old_samples_and_pods_are_forgotten():
    windows = ServiceWindows()
    for pod, at_s in (("gone", 0.0), ("p", 10.0), ("p", 30.0)):
        windows.record(pod, scrape(at_s), longest_break_s=60, retention_s=20)
    assert list(windows.pods) == ["p"]
    assert [sample.at_s for sample in windows.pods["p"].samples] == [10, 30]


def test_a_pod_whose_last_scrape_held_impossible_values_does_not_report():
    honest, lying = scrape(10, arrivals=1), replace(scrape(10, arrivals=1), implausible=2)
    found = window(story(("p", honest), ("q", lying)), now_s=10, ready=("p", "q"))
    assert (found.pods_reporting, found.pods_expected) == (1, 2)
