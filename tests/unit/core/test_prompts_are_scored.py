"""Log probabilities of a prompt: each token's once, whatever is cached, chunked or preempted."""

from dataclasses import replace

from slot_runner import score

from headrace_engine.core.plan import Outcome, PromptLogprobs
from headrace_engine.core.policy import FirstComeFirstServed
from headrace_engine.core.priority import PriorityClasses
from headrace_engine.core.sampling import Sampling

SCORED = Sampling(prompt_logprobs=0)
PROMPT = tuple(range(1, 14))


def step(loop):
    """One step that scores what is asked; how many prompt positions of each request it told of."""
    plan = loop.plan()
    sampled = {row.request_id: [7] for row in plan.rows if row.sampled_rows}
    scored = {row.request_id: score(row, loop.requests[row.request_id]) for row in plan.rows if row.scoring}
    loop.now_s += 0.01
    loop._note(loop.scheduler.commit(plan, Outcome(sampled, 0.01, prompt_logprobs=scored), loop.now_s))
    return {name: len(told) for name, told in scored.items()}


def told(loop, request_id):
    events = [event for event in loop.events if isinstance(event, PromptLogprobs)]
    return [-each.logprob for event in events if event.request_id == request_id for each in event.logprobs]


def drain(loop):
    while loop.scheduler.has_work():
        step(loop)


def test_chunk_by_chunk_and_not_the_first_token(make_loop):
    loop = make_loop(max_num_batched_tokens=5)
    loop.submit("a", PROMPT, sampling=SCORED)
    assert [step(loop) for _ in range(4)] == [{"a": 5}, {"a": 5}, {"a": 2}, {}]
    assert told(loop, "a") == list(range(12))


def test_what_is_in_the_cache_is_computed_again_for_one_that_is_scored(make_loop):
    loop = make_loop()
    loop.submit("first", PROMPT, max_tokens=2)
    loop.drain()
    loop.submit("scored", PROMPT, max_tokens=2, sampling=SCORED)
    loop.submit("plain", PROMPT, max_tokens=2)
    drain(loop)
    assert loop.finished["scored"].cached_tokens == 0
    assert loop.finished["plain"].cached_tokens == 12
    assert told(loop, "scored") == list(range(12))


def test_one_preempted_half_way_goes_on_where_it_was_scored_to(make_loop):
    policy = PriorityClasses(FirstComeFirstServed)
    loop = make_loop(policy=policy, max_num_batched_tokens=6, max_num_seqs=1)
    loop.submit("a", PROMPT, max_tokens=2, priority=5, sampling=SCORED)
    step(loop)
    loop.submit("urgent", (90,), max_tokens=2, priority=0)
    drain(loop)
    assert loop.requests["a"].preemptions == 1
    assert told(loop, "a") == list(range(12))


def test_one_that_was_scored_whole_resumes_from_the_cache(make_loop):
    policy = PriorityClasses(FirstComeFirstServed)
    loop = make_loop(policy=policy, max_num_seqs=1)
    loop.submit("a", PROMPT, max_tokens=9, priority=5, sampling=SCORED)
    step(loop)
    loop.submit("urgent", (90,), max_tokens=2, priority=0)
    drain(loop)
    assert loop.requests["a"].preemptions == 1
    assert told(loop, "a") == list(range(12))


def test_a_prompt_of_one_token_has_nothing_to_score(make_loop):
    loop = make_loop()
    loop.submit("a", (5,), max_tokens=2, sampling=SCORED)
    drain(loop)
    assert told(loop, "a") == []


def test_a_prompt_alone_is_scored_and_ends(make_loop):
    loop = make_loop()
    loop.submit("a", PROMPT, max_tokens=0, sampling=SCORED)
    drain(loop)
    assert told(loop, "a") == list(range(12))
    assert loop.finished["a"].output_tokens == 0


def test_kv_from_elsewhere_does_not_spare_what_is_scored(make_loop):
    loop = make_loop()
    loop.submit("a", PROMPT, max_tokens=2, sampling=SCORED, remote_tokens=12)
    assert loop.requests["a"].loadable_tokens == 0
    loop.submit("b", PROMPT, max_tokens=2, sampling=replace(SCORED, prompt_logprobs=None), remote_tokens=12)
    assert loop.requests["b"].loadable_tokens == 12
