"""Step keys: so many adapters run together, who has another waits, others pass it, and it is not starved."""

from headrace_engine.core.line import MAX_PASSES
from headrace_engine.core.plan import Hold
from headrace_engine.core.policy import FirstComeFirstServed
from headrace_engine.core.priority import PriorityClasses


def test_only_so_many_keys_run_together(make_loop):
    loop = make_loop(max_step_keys=1)
    for request_id, key in ("a1", "a"), ("b1", "b"), ("a2", "a"), ("plain", ""):
        loop.submit(request_id, 4, max_tokens=2, step_key=key)
    plan = loop.plan()
    loop.commit(plan)
    assert [row.request_id for row in plan.rows] == ["a1", "a2", "plain"]
    assert plan.hold is Hold.KEYS
    loop.step()
    assert loop.step() == {"b1": 4}


def test_a_request_with_another_key_is_passed_for_a_while_and_never_starved(make_loop):
    loop = make_loop(max_step_keys=1, max_num_seqs=2)
    loop.submit("first", 4, max_tokens=500, step_key="a")
    loop.submit("other", 4, max_tokens=5, step_key="b")
    passed: set[str] = set()
    while loop.requests["other"].first_scheduled_s is None:
        if loop.snapshot.num_waiting < 4:
            loop.submit(f"a{len(loop.requests)}", 4, max_tokens=5, step_key="a")
        passed.update(loop.step())
    assert len(passed) == len(["first", *["passes"] * MAX_PASSES, "other"])


def test_one_that_stands_aside_can_still_be_aborted(make_loop):
    loop = make_loop(max_step_keys=1)
    loop.submit("a", 4, step_key="a")
    loop.submit("b", 4, step_key="b")
    loop.step()
    assert loop.scheduler.abort("b") is not None
    assert loop.snapshot.num_waiting == 0


def test_a_better_class_held_back_by_its_key_preempts_nobody_in_vain(make_loop):
    loop = make_loop(policy=PriorityClasses(FirstComeFirstServed), max_step_keys=1, max_num_seqs=2)
    for request_id in ("batch-1", "batch-2"):
        loop.submit(request_id, 4, max_tokens=5, priority=1, step_key="a")
    loop.step()
    loop.submit("chat", 4, max_tokens=1, priority=0, step_key="b")
    loop.drain()
    assert loop.snapshot.preemptions_total == 0


def test_a_better_class_never_waits_for_who_stands_aside(make_loop):
    """It takes the slot that comes free, and another's where none does."""
    loop = make_loop(policy=PriorityClasses(FirstComeFirstServed), max_step_keys=1, max_num_seqs=2)
    for request_id in ("batch-1", "batch-2"):
        loop.submit(request_id, 4, max_tokens=500, priority=1, step_key="a")
    loop.submit("aside", 4, priority=1, step_key="b")
    loop.step()
    loop.scheduler.abort("batch-2")
    loop.step()
    loop.submit("late", 4, max_tokens=500, priority=1, step_key="a")
    loop.step()
    loop.submit("chat", 4, max_tokens=1, priority=0, step_key="a")
    assert "chat" in loop.step()
    assert loop.snapshot.preemptions_total == 1


def test_one_of_the_same_class_that_stands_aside_keeps_no_other_from_a_worse_ones_slot(make_loop):
    loop = make_loop(policy=PriorityClasses(FirstComeFirstServed), max_step_keys=1, max_num_seqs=2)
    for request_id in ("batch-1", "batch-2"):
        loop.submit(request_id, 4, max_tokens=500, priority=1, step_key="a")
    loop.step()
    loop.scheduler.abort("batch-2")
    loop.submit("aside", 4, priority=0, step_key="b")
    loop.step()
    loop.submit("batch-3", 4, max_tokens=500, priority=1, step_key="a")
    loop.step()
    loop.submit("chat", 4, max_tokens=1, priority=0, step_key="a")
    assert "chat" in loop.step()


def test_a_better_class_passes_for_ever_and_uses_up_nobodys_patience(make_loop):
    loop = make_loop(policy=PriorityClasses(FirstComeFirstServed, age_s=1e9), max_step_keys=1, max_num_seqs=2)
    loop.submit("first", 4, max_tokens=50_000, priority=1, step_key="a")
    loop.submit("aside", 4, priority=1, step_key="b")
    loop.step()
    for number in range(2 * MAX_PASSES):
        loop.submit(f"chat-{number}", 4, max_tokens=1, priority=0, step_key="a")
        assert f"chat-{number}" in loop.step()
    assert loop.scheduler._life.waiting._passes == 0
