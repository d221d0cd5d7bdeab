"""The bounded queue: exact bounds, honest waiting times, and a plain no to what can never be served."""

import pytest

from headrace_engine.core.request import Request


def test_a_prompt_that_can_never_fit_is_refused_at_once(make_loop):
    loop = make_loop(num_blocks=2, block_size=4, max_model_len=100)
    assert loop.submit("fits", 8, max_tokens=1) is None
    rejection = loop.submit("too-long", 9)
    assert rejection.reason == "never_fits"
    assert "9 tokens" in rejection.message
    assert rejection.retry_after_s is None


def test_a_prompt_as_long_as_the_model_leaves_no_room_for_output(make_loop):
    loop = make_loop(max_model_len=16)
    assert loop.submit("fits", 15) is None
    assert loop.submit("too-long", 16).reason == "never_fits"


@pytest.mark.parametrize(("prompt", "max_tokens"), [(0, 1), (3, -1)])
def test_a_request_for_nothing_is_refused(make_loop, prompt, max_tokens):
    assert make_loop().submit("a", prompt, max_tokens).reason == "invalid"


def test_an_id_that_is_being_served_is_refused_until_its_blocks_are_free(make_loop):
    loop = make_loop()
    loop.submit("a", 4)
    assert loop.submit("a", 4).reason == "duplicate_id"
    plan = loop.plan()
    loop.scheduler.abort("a")
    assert loop.submit("a", 4).reason == "duplicate_id"
    loop.commit(plan)
    assert loop.submit("a", 4) is None


def test_the_queue_is_bounded_in_requests(make_loop):
    loop = make_loop(max_num_seqs=1, max_num_queued_reqs=2)
    loop.submit("running", 4)
    loop.step()
    assert loop.submit("first", 4) is None
    assert loop.submit("second", 4) is None
    rejection = loop.submit("third", 4)
    assert rejection.reason == "queue_full_requests"
    assert "max_num_queued_reqs is 2" in rejection.message


def test_the_queue_is_bounded_in_prompt_tokens(make_loop):
    loop = make_loop(max_num_seqs=1, max_num_queued_tokens=20)
    loop.submit("running", 4)
    loop.step()
    assert loop.submit("first", 15) is None
    assert loop.submit("second", 6).reason == "queue_full_tokens"
    assert loop.submit("third", 5) is None


def test_a_bound_of_zero_serves_at_once_or_refuses(make_loop):
    loop = make_loop(max_num_seqs=2, max_num_queued_reqs=0, max_num_queued_tokens=0)
    assert loop.submit("a", 4) is None
    loop.step()
    assert loop.submit("b", 4) is None
    loop.step()
    assert loop.submit("c", 4).reason == "queue_full_requests"


def test_a_queue_that_was_given_up_is_no_backlog(make_loop):
    loop = make_loop(max_num_seqs=1)
    loop.submit("running", 4)
    loop.submit("waiting", 4)
    loop.step()
    for name in ("waiting", "running"):
        loop.scheduler.abort(name)
    loop.change_limits(max_num_queued_reqs=0)
    assert loop.submit("next", 4) is None


def test_a_burst_into_free_slots_does_not_queue(make_loop):
    loop = make_loop(max_num_seqs=4, max_num_queued_reqs=1)
    rejected = [loop.submit(f"r{number}", 2) is not None for number in range(6)]
    assert rejected == [False] * 5 + [True]


def test_free_slots_are_no_room_while_blocks_hold_the_queue_back(make_loop):
    loop = make_loop(max_num_seqs=8, num_blocks=4, block_size=4, max_num_queued_reqs=1)
    loop.submit("large", 16, max_tokens=1_000)
    loop.submit("waiting", 4)
    loop.plan()
    assert loop.submit("refused", 4).reason == "queue_full_requests"


def test_a_preempted_request_does_not_count_against_the_queue(make_loop):
    loop = make_loop(num_blocks=4, block_size=1, max_num_queued_reqs=1)
    loop.submit("a", 1, max_tokens=4)
    loop.submit("b", 1, max_tokens=4)
    while not loop.snapshot.preemptions_total:
        loop.step()
    assert (loop.snapshot.num_waiting, loop.snapshot.num_newcomers, loop.snapshot.waiting_tokens) == (1, 0, 0)


def test_retry_after_is_the_measured_time_to_drain(make_loop):
    """One slot, requests of 50 steps of 10 ms each: the queue loses two requests a second, and ten wait."""
    loop = make_loop(max_num_seqs=1, max_num_queued_reqs=10)
    for number in range(40):
        while loop.submit(f"r{number}", 4, max_tokens=50) is not None:
            loop.step()
    loop.steps(10)
    while loop.snapshot.num_newcomers < 10:
        loop.submit(f"more{loop.snapshot.num_newcomers}", 4, max_tokens=50)
    assert loop.submit("late", 4).retry_after_s == pytest.approx(5.0, rel=0.1)


def test_retry_after_stays_within_its_range(make_loop):
    loop = make_loop(max_num_seqs=1, max_num_queued_reqs=1, max_model_len=100_000, num_blocks=50_000)
    loop.submit("endless", 4, max_tokens=90_000)
    loop.step()
    loop.submit("waiting", 4)
    assert loop.submit("nothing-measured-yet", 4).retry_after_s == 1.0
    loop.steps(5)
    assert loop.submit("nothing-leaves", 4).retry_after_s == 60.0


def test_quiet_times_do_not_make_the_queue_look_slow(make_loop):
    loop = make_loop(max_num_seqs=1, max_num_queued_reqs=10)
    for number in range(10):
        loop.submit(f"quick{number}", 4, max_tokens=10)
    loop.drain()
    for number in range(100):
        loop.now_s += 30.0
        loop.submit(f"rare{number}", 4, max_tokens=1)
        loop.drain()
    for number in range(11):
        loop.submit(f"burst{number}", 4, max_tokens=10)
    assert loop.submit("late", 4).retry_after_s == pytest.approx(1.1, rel=0.2)


def test_a_closed_scheduler_refuses_the_new_and_serves_the_old(make_loop):
    loop = make_loop()
    loop.submit("old", 4, max_tokens=2)
    loop.scheduler.close()
    assert loop.submit("new", 4).reason == "draining"
    loop.drain()
    assert loop.finished["old"].output_tokens == 2


def test_the_oldest_age_is_that_of_who_waits_longest(make_loop):
    loop = make_loop(max_num_seqs=1)
    loop.submit("running", 4, max_tokens=100)
    loop.step()
    assert loop.snapshot.oldest_waiting_age_s is None
    loop.submit("first", 4)
    loop.step()
    loop.submit("second", 4)
    loop.step()
    assert loop.snapshot.oldest_waiting_age_s == pytest.approx(0.02)
    loop.scheduler.abort("first")
    assert loop.snapshot.oldest_waiting_age_s == pytest.approx(0.01)


def test_retry_after_follows_a_queue_that_became_faster(make_loop):
    loop = make_loop(max_num_seqs=1, max_num_queued_reqs=10)
    for max_tokens in (200, 5):
        for number in range(40):
            while loop.submit(f"{max_tokens}-{number}", 4, max_tokens=max_tokens) is not None:
                loop.step()
    loop.steps(5 * 200 + 2000)
    for number in range(400):
        while loop.submit(f"fast-{number}", 4, max_tokens=20) is not None:
            loop.step()
    assert loop.submit("late", 4).retry_after_s == pytest.approx(2.0, rel=0.1)


def group(size, tokens=4, **fields):
    ids = tuple(range(tokens))
    return [Request(f"g{place}", ids, 8, 0.0, group="g", **fields) for place in range(size)]


def test_a_group_is_taken_whole_or_not_at_all(make_loop):
    loop = make_loop(max_num_seqs=3, max_num_queued_reqs=1)
    loop.submit("running", 4)
    loop.step()
    assert loop.scheduler.submit_together(group(4), loop.now_s).reason == "queue_full_requests"
    assert loop.snapshot.num_newcomers == 0
    assert loop.scheduler.submit_together(group(3), loop.now_s) is None


def test_a_group_that_finds_nobody_running_is_never_too_large_for_the_queue(make_loop):
    loop = make_loop(max_num_seqs=2, max_num_queued_reqs=0, max_num_queued_tokens=0)
    assert loop.scheduler.submit_together(group(5), loop.now_s) is None
    assert loop.submit("behind", 4).reason == "queue_full_requests"
    loop.drain()
    assert len(loop.finished) == 5
    loop.step()
    assert loop.submit("later", 4) is None


def test_one_that_can_never_fit_refuses_its_group(make_loop):
    loop = make_loop(max_model_len=16)
    together = [*group(2), Request("long", tuple(range(20)), 8, 0.0, group="g")]
    assert loop.scheduler.submit_together(together, loop.now_s).reason == "never_fits"
    assert not loop.scheduler.has_work()


def test_outputs_that_share_a_prompt_queue_its_tokens_once(make_loop):
    loop = make_loop(max_num_seqs=1, max_num_queued_tokens=20)
    loop.submit("running", 4)
    loop.step()
    assert loop.submit("first", 15) is None
    for name in "bcd":
        assert loop.submit(name, loop.requests["first"].prompt_token_ids, leader="first") is None
    assert loop.snapshot.waiting_tokens == 15
    loop.drain()
    assert loop.snapshot.waiting_tokens == 0


def test_a_process_that_was_stopped_takes_no_longer_to_drain(make_loop):
    """The steps around the stop tell the rate; the minute in between tells nothing of it."""
    loop = make_loop(max_num_seqs=1, max_num_queued_reqs=10)
    for number in range(40):
        while loop.submit(f"r{number}", 4, max_tokens=50) is not None:
            loop.step()
    loop.now_s += 60.0
    while loop.snapshot.num_newcomers < 10:
        loop.submit(f"more{loop.snapshot.num_newcomers}", 4, max_tokens=50)
    loop.steps(60)
    while loop.snapshot.num_newcomers < 10:
        loop.submit(f"again{loop.snapshot.num_newcomers}", 4, max_tokens=50)
    assert loop.submit("late", 4).retry_after_s == pytest.approx(5.0, rel=0.3)
