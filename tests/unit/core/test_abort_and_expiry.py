"""Aborts, deadlines and failed steps: whatever a request is doing, it ends once and then holds nothing."""

import pytest

from headrace_engine.core.plan import Finished
from headrace_engine.core.request import FinishReason, Status


def waiting(loop):
    loop.submit("blocker", 4, max_tokens=50)
    loop.step()
    loop.submit("a", 8)
    loop.step()


def mid_prefill(loop):
    loop.submit("a", 100)
    loop.step()


def decoding(loop):
    loop.submit("a", 8)
    loop.steps(3)


def preempted(loop):
    loop.submit("a", 4, max_tokens=50)
    loop.step()
    loop.scheduler._life.preempt(loop.requests["a"], loop.now_s)


@pytest.mark.parametrize("stage", [waiting, mid_prefill, decoding, preempted])
def test_an_abort_frees_everything_at_once(make_loop, stage):
    loop = make_loop(max_num_seqs=1, max_num_batched_tokens=16)
    stage(loop)
    event = loop.scheduler.abort("a")
    assert (event.request_id, event.reason) == ("a", FinishReason.ABORT)
    assert loop.requests["a"].status is Status.FINISHED
    loop.scheduler.abort("blocker")
    snapshot = loop.snapshot
    assert (snapshot.in_flight, snapshot.referenced_blocks, snapshot.waiting_tokens) == (0, 0, 0)
    assert not loop.scheduler.has_work()


def test_an_abort_while_the_row_is_computed_frees_its_blocks_with_the_step(make_loop):
    loop = make_loop(block_size=4)
    loop.submit("a", 8)
    plan = loop.plan()
    assert loop.scheduler.abort("a").reason is FinishReason.ABORT
    assert loop.snapshot.referenced_blocks == 2
    assert loop.commit(plan) == []
    assert loop.snapshot.referenced_blocks == 0


def test_an_abort_of_what_is_unknown_or_over_is_nothing(make_loop):
    loop = make_loop()
    loop.submit("a", 4, max_tokens=1)
    loop.drain()
    assert loop.scheduler.abort("a") is None
    assert loop.scheduler.abort("b") is None


def test_a_stop_string_found_by_the_server_ends_the_request_as_a_stop(make_loop):
    loop = make_loop()
    loop.submit("a", 4)
    loop.steps(3)
    event = loop.scheduler.abort("a", FinishReason.STOP)
    assert (event.reason, event.output_tokens, event.stop_token_id) == (FinishReason.STOP, 3, None)


def test_a_request_not_scheduled_by_its_deadline_expires(make_loop):
    loop = make_loop(max_num_seqs=1)
    loop.submit("running", 4, max_tokens=50)
    loop.step()
    loop.submit("patient", 4, queue_deadline_s=10.0)
    loop.submit("urgent", 4, queue_deadline_s=loop.now_s + 0.03)
    loop.steps(3)
    assert "urgent" not in loop.finished
    loop.step()
    assert loop.finished["urgent"].reason is FinishReason.EXPIRED
    assert "patient" not in loop.finished


def test_a_request_that_was_scheduled_in_time_never_expires(make_loop):
    loop = make_loop(num_blocks=4, block_size=1)
    loop.submit("a", 1, max_tokens=4, queue_deadline_s=0.01)
    loop.submit("b", 1, max_tokens=4, queue_deadline_s=0.01)
    loop.drain()
    assert loop.snapshot.preemptions_total
    assert {event.reason for event in loop.finished.values()} == {FinishReason.LENGTH}


def test_many_short_lived_deadlines_leave_nothing_behind(make_loop):
    loop = make_loop()
    for number in range(1000):
        loop.submit(f"r{number}", 4, max_tokens=1, queue_deadline_s=loop.now_s + 3600.0)
        loop.step()
    assert len(loop.scheduler._life.deadlines._heap._heap) <= 64


def test_a_failed_step_ends_its_requests_and_no_others(make_loop):
    loop = make_loop(max_num_seqs=1)
    loop.submit("computing", 4)
    loop.submit("waiting", 4, max_tokens=1)
    events = loop.scheduler.fail(loop.plan(), "device lost")
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert (finished.request_id, finished.reason) == ("computing", FinishReason.ERROR)
    assert finished.message == "device lost"
    assert loop.snapshot.referenced_blocks == 0
    loop.drain()
    assert loop.finished["waiting"].reason is FinishReason.LENGTH


def test_a_row_without_a_sampled_token_ends_its_request_alone(make_loop):
    loop = make_loop()
    loop.submit("a", 4, max_tokens=2)
    loop.submit("b", 4, max_tokens=2)
    loop.commit(loop.plan(), {"a": []})
    assert loop.finished["a"].reason is FinishReason.ERROR
    loop.drain()
    assert loop.finished["b"].output_tokens == 2


def test_a_group_is_in_time_once_one_of_it_was_scheduled(make_loop):
    loop = make_loop(max_num_seqs=1)
    for name in "abc":
        loop.submit(name, 4, max_tokens=5, queue_deadline_s=0.03, group="g")
    loop.submit("other", 4, queue_deadline_s=0.03, group="h")
    loop.drain()
    reasons = {name: loop.finished[name].reason for name in loop.finished}
    assert reasons == dict.fromkeys("abc", FinishReason.LENGTH) | {"other": FinishReason.EXPIRED}
    assert not loop.scheduler._life.deadlines._groups


def test_a_group_of_which_none_was_scheduled_in_time_expires_at_once(make_loop):
    loop = make_loop(max_num_seqs=1)
    loop.submit("running", 4, max_tokens=50)
    loop.step()
    for name in "abc":
        loop.submit(name, 4, queue_deadline_s=0.03, group="g")
    loop.scheduler.abort("b")
    loop.steps(3)
    assert {loop.finished[name].reason for name in "ac"} == {FinishReason.EXPIRED}
    assert not loop.scheduler._life.deadlines._groups


def test_those_that_follow_expire_with_their_leader_and_compute_nothing(make_loop):
    loop = make_loop(max_num_seqs=1)
    loop.submit("running", 4, max_tokens=5)
    loop.step()
    for name in "abc":
        loop.submit(name, [1, 2, 3], queue_deadline_s=0.02, group="g", leader="" if name == "a" else "a")
    loop.drain()
    assert {loop.finished[name].reason for name in "abc"} == {FinishReason.EXPIRED}
    assert all(loop.requests[name].first_scheduled_s is None for name in "abc")
