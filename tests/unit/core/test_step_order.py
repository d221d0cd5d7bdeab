"""A step: decodes first, then running prefills, then admissions, all within budget and slots."""

from headrace_engine.core.plan import Hold


def test_a_decode_never_waits_for_a_long_prompt(make_loop):
    loop = make_loop(max_num_batched_tokens=8)
    loop.submit("chat", 4)
    loop.step()
    loop.submit("book", 20)
    assert loop.step() == {"chat": 1, "book": 7}
    assert loop.step() == {"chat": 1, "book": 7}
    assert loop.step() == {"chat": 1, "book": 6}
    assert loop.step() == {"chat": 1, "book": 1}


def test_a_running_prefill_goes_on_before_a_newcomer_starts(make_loop):
    loop = make_loop(max_num_batched_tokens=8)
    loop.submit("first", 12)
    loop.submit("second", 6)
    assert loop.step() == {"first": 8}
    assert loop.step() == {"first": 4, "second": 4}
    assert loop.step() == {"first": 1, "second": 2}


def test_only_the_chunk_that_ends_the_prompt_samples(make_loop):
    loop = make_loop(max_num_batched_tokens=8)
    loop.submit("book", 16)
    first = loop.plan()
    loop.commit(first)
    assert [(row.start, row.sampled_rows) for row in first.rows] == [(0, 0)]
    second = loop.plan()
    assert [(row.start, row.sampled_rows) for row in second.rows] == [(8, 1)]


def test_the_long_prefill_cap_leaves_budget_for_others(make_loop):
    loop = make_loop(max_num_batched_tokens=16, long_prefill_token_threshold=4)
    loop.submit("book", 12)
    loop.submit("note", 3)
    assert loop.step() == {"book": 4, "note": 3}
    assert loop.step() == {"note": 1, "book": 4}


def test_a_one_token_prompt_is_a_prefill_and_then_decodes(make_loop):
    loop = make_loop()
    loop.submit("a", 1)
    first = loop.plan()
    loop.commit(first)
    assert (first.num_prefill_tokens, first.num_decode_tokens) == (1, 0)
    second = loop.plan()
    assert (second.num_prefill_tokens, second.num_decode_tokens) == (0, 1)
    assert second.context_tokens == 2


def test_a_budget_smaller_than_the_batch_serves_every_decode_in_turn(make_loop):
    loop = make_loop(max_num_seqs=5)
    for request_id in "abcde":
        loop.submit(request_id, 4, max_tokens=100)
    loop.step()
    loop.change_limits(max_num_batched_tokens=2)
    loop.steps(50)
    generated = [len(request.output_token_ids) for request in loop.requests.values()]
    assert generated == [21] * 5


def test_nobody_is_admitted_beyond_the_slots(make_loop):
    loop = make_loop(max_num_seqs=2)
    for request_id in "abc":
        loop.submit(request_id, 4, max_tokens=2)
    assert loop.step() == {"a": 4, "b": 4}
    assert loop.step() == {"a": 1, "b": 1}
    assert loop.step() == {"c": 4}


def test_a_plan_says_what_held_back_the_queue(make_loop):
    loop = make_loop(max_num_seqs=2, max_num_batched_tokens=8, num_blocks=4, block_size=4)
    loop.submit("a", 8)
    loop.submit("b", 12)
    plan = loop.plan()
    loop.commit(plan)
    assert plan.hold is Hold.BUDGET
    plan = loop.plan()
    loop.commit(plan)
    assert plan.hold is Hold.BLOCKS
    loop.change_limits(max_num_seqs=1)
    plan = loop.plan()
    loop.commit(plan)
    assert plan.hold is Hold.SLOTS
    loop.scheduler.abort("b")
    assert loop.plan().hold is None


def test_nothing_to_do_is_an_empty_plan_and_no_error(make_loop):
    loop = make_loop()
    plan = loop.plan()
    assert plan.rows == ()
    assert loop.commit(plan) == []
    assert not loop.scheduler.has_work()


def test_events_come_in_the_order_of_the_plan_and_tokens_before_the_end(make_loop):
    loop = make_loop()
    loop.submit("a", 4, max_tokens=1)
    loop.submit("b", 4, max_tokens=2)
    loop.step()
    told = [(type(event).__name__, event.request_id) for event in loop.events]
    assert told == [
        ("Scheduled", "a"),
        ("Scheduled", "b"),
        ("Tokens", "a"),
        ("Finished", "a"),
        ("Tokens", "b"),
    ]


def test_queue_time_ends_at_the_first_scheduling(make_loop):
    loop = make_loop(max_num_seqs=1)
    loop.submit("a", 4, max_tokens=3)
    loop.submit("b", 4)
    loop.steps(4)
    queue_times_s = [event.queue_time_s for event in loop.events if hasattr(event, "queue_time_s")]
    assert queue_times_s == [0.0, loop.requests["b"].first_scheduled_s]
