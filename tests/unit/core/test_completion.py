"""How a sequence ends: stop ids before lengths, usage equal to what was generated."""

from headrace_engine.core.plan import Tokens
from headrace_engine.core.request import FinishReason

EOS = 2


def told(loop, request_id):
    tokens = [event for event in loop.events if isinstance(event, Tokens) and event.request_id == request_id]
    return [token_id for event in tokens for token_id in event.token_ids]


def test_a_stop_id_ends_the_request_and_is_not_output(make_loop):
    loop = make_loop()
    loop.submit("a", 4, stop_token_ids=frozenset([EOS]))
    loop.step()
    loop.commit(loop.plan(), {"a": [EOS]})
    finished = loop.finished["a"]
    assert (finished.reason, finished.stop_token_id) == (FinishReason.STOP, EOS)
    assert told(loop, "a") == [7]
    assert (finished.prompt_tokens, finished.output_tokens) == (4, 2)


def test_a_stop_id_as_the_last_allowed_token_is_a_stop(make_loop):
    loop = make_loop()
    loop.submit("a", 4, max_tokens=1, stop_token_ids=frozenset([EOS]))
    loop.commit(loop.plan(), {"a": [EOS]})
    assert loop.finished["a"].reason is FinishReason.STOP


def test_a_stop_id_before_min_tokens_is_output_like_any_other(make_loop):
    loop = make_loop()
    loop.submit("a", 4, min_tokens=3, stop_token_ids=frozenset([EOS]))
    for _ in range(3):
        loop.commit(loop.plan(), {"a": [EOS]})
    assert told(loop, "a") == [EOS, EOS]
    assert loop.finished["a"].output_tokens == 3


def test_max_tokens_ends_a_request_by_length(make_loop):
    loop = make_loop()
    loop.submit("a", 4, max_tokens=3)
    loop.drain()
    assert (loop.finished["a"].reason, told(loop, "a")) == (FinishReason.LENGTH, [7, 7, 7])


def test_the_model_length_ends_a_request(make_loop):
    loop = make_loop(max_model_len=10)
    loop.submit("a", 4, max_tokens=100)
    loop.drain()
    assert loop.finished["a"].output_tokens == 6


def test_a_sequence_as_long_as_the_pool_ends_by_length_not_by_error(make_loop):
    loop = make_loop(num_blocks=2, block_size=4, max_model_len=1000)
    loop.submit("a", 4, max_tokens=100)
    loop.drain()
    assert (loop.finished["a"].reason, loop.finished["a"].output_tokens) == (FinishReason.LENGTH, 5)
    assert loop.snapshot.preemptions_total == 0


def test_nothing_is_sampled_for_a_request_that_wants_its_prompt_computed(make_loop):
    loop = make_loop(max_num_batched_tokens=8)
    loop.submit("embedding", 12, max_tokens=0)
    plan = loop.plan()
    assert [row.sampled_rows for row in plan.rows] == [0]
    loop.commit(plan)
    plan = loop.plan()
    assert [row.sampled_rows for row in plan.rows] == [0]
    loop.commit(plan)
    finished = loop.finished["embedding"]
    assert (finished.reason, finished.output_tokens) == (FinishReason.LENGTH, 0)


def test_a_prompt_as_long_as_the_model_can_be_computed_but_not_continued(make_loop):
    loop = make_loop(max_model_len=16)
    assert loop.submit("continued", 16, max_tokens=1).reason == "never_fits"
    assert loop.submit("computed", 16, max_tokens=0) is None
    loop.drain()
    assert loop.finished["computed"].prompt_tokens == 16


def test_a_runner_that_samples_more_than_asked_is_not_believed(make_loop):
    loop = make_loop()
    loop.submit("a", 4, max_tokens=5)
    loop.commit(loop.plan(), {"a": [8, 9]})
    assert told(loop, "a") == [8]
