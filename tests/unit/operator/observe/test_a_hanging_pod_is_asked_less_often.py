"""Turns, by times that the test names."""

from headrace_operator.observe.turns import LONGEST_REST_S, Turns


def test_a_pod_is_scraped_by_one_scrape_at_a_time():
    turns = Turns(interval_s=2)
    assert turns.begin("p", 0)
    assert not turns.begin("p", 2)
    assert turns.begin("q", 2), "another pod does not wait for it"
    turns.end("p", 3, timed_out=False)
    assert turns.begin("p", 3)


def test_each_timeout_doubles_the_rest_up_to_a_bound():
    turns, now_s = Turns(interval_s=2), 0.0
    for rest_s in (4, 8, LONGEST_REST_S, LONGEST_REST_S):
        assert turns.begin("p", now_s)
        turns.end("p", now_s, timed_out=True)
        assert not turns.begin("p", now_s + rest_s - 0.1)
        now_s += rest_s


def test_an_answer_ends_the_rest():
    turns = Turns(interval_s=2)
    turns.begin("p", 0)
    turns.end("p", 0, timed_out=True)
    turns.begin("p", 4)
    turns.end("p", 4, timed_out=False)
    assert turns.begin("p", 4)


def test_pods_that_are_gone_are_forgotten():
    turns = Turns(interval_s=2)
    for pod in ("gone", "here"):
        turns.begin(pod, 0)
        turns.end(pod, 0, timed_out=True)
    turns.keep(["here"])
    assert turns.begin("gone", 1)
    assert not turns.begin("here", 1)
