"""Frames, commands and reports: whatever goes onto the link comes off it the same, however it is cut."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticSerializationError

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Finished, Hold, Preempted, PromptLogprobs, Rejection, Scheduled, Tokens
from headrace_engine.core.policies import PolicyName
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.sampling import Sampling, Steering, TokenLogprobs
from headrace_engine.core.snapshot import Snapshot
from headrace_engine.core.step_model import StepWork
from headrace_engine.link import messages as say
from headrace_engine.link import reports
from headrace_engine.link.frames import FrameError, Frames, framed
from headrace_engine.server.model import ModelFacts
from headrace_engine.server.rules import Rules
from headrace_engine.telemetry.report import Step, StepReport

NAMES = st.sampled_from(["chatcmpl-1-0", "chatcmpl-1-1", "Tokens", "Finished", ""])
IDS = st.integers(0, 2**31)
COUNTS = st.integers(0, 2**53)
SECONDS = st.floats(0, 1e9)
LOGPROBS = st.floats(max_value=0.0, allow_nan=False)
TOKEN_LOGPROBS = st.builds(
    TokenLogprobs,
    logprob=LOGPROBS,
    rank=IDS,
    top_ids=st.lists(IDS, max_size=3).map(tuple),
    top_logprobs=st.lists(LOGPROBS, max_size=3).map(tuple),
)
EVENTS = st.one_of(
    st.builds(Scheduled, request_id=NAMES, queue_time_s=SECONDS, cached_tokens=COUNTS),
    st.builds(Preempted, request_id=NAMES, lost_tokens=COUNTS),
    st.builds(PromptLogprobs, request_id=NAMES, logprobs=st.lists(TOKEN_LOGPROBS, max_size=3)),
    st.builds(
        Tokens,
        request_id=NAMES,
        token_ids=st.lists(IDS, min_size=1, max_size=4),
        logprobs=st.none() | st.lists(TOKEN_LOGPROBS, max_size=4),
    ),
    st.builds(
        Finished,
        request_id=NAMES,
        reason=st.sampled_from(FinishReason),
        stop_token_id=st.none() | IDS,
        message=st.none() | st.text(max_size=9),
        stop_logprobs=st.none() | TOKEN_LOGPROBS,
        prompt_tokens=COUNTS,
        output_tokens=COUNTS,
        cached_tokens=COUNTS,
    ),
)
WORK = st.builds(
    StepWork,
    tokens=COUNTS,
    decode_context_tokens=COUNTS,
    prefill_attention_tokens=st.floats(0, 1e12),
    sampled_rows=COUNTS,
)
STEPS = st.builds(
    Step,
    num_prefill_tokens=COUNTS,
    num_decode_tokens=COUNTS,
    duration_s=SECONDS,
    num_seqs=COUNTS,
    context_tokens=COUNTS,
    work=WORK,
    holds=st.lists(st.sampled_from(Hold), max_size=3).map(tuple),
)
LIMITS = Limits(4, 16)
SNAPSHOT = Snapshot(1, 2, 3, 4, 0.5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
FACTS = ModelFacts(
    capacity=Capacity(4, 16, 64, 32, 4), vocab_size=258, eos_token_ids=frozenset({256, 7}), dtype="bfloat16"
)


@given(payloads=st.lists(st.binary(max_size=20), max_size=8), data=st.data())
def test_payloads_come_whole_however_the_stream_is_cut(payloads: list[bytes], data: st.DataObject) -> None:
    stream, frames, came = b"".join(map(framed, payloads)), Frames(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        came += frames.feed(stream[:size])
        stream = stream[size:]
    assert came == payloads


def test_what_is_no_frame_is_not_waited_for() -> None:
    with pytest.raises(FrameError, match="frame of"):
        list(Frames().feed(b"GET / HTTP/1.1\r\n"))


@given(events=st.lists(EVENTS, max_size=6), step=st.none() | STEPS, now_s=SECONDS)
def test_a_report(events: list, step: Step | None, now_s: float) -> None:
    requests = {name: Request(name, (1, 2), max_tokens=2, arrival_s=0.0) for name in "ab"}
    refusals = ((requests["b"], Rejection("queue_full_requests", "the queue is full", 1.5)),)
    report = StepReport(now_s, (requests["a"],), refusals, tuple(events), step, LIMITS, SNAPSHOT)
    assert reports.decode(reports.encode(report), requests) == report


def test_a_report_is_of_requests_that_its_reader_has() -> None:
    stranger = Request("stranger", (1,), max_tokens=1, arrival_s=0.0)
    report = StepReport(0.0, (stranger,), (), (), None, LIMITS, SNAPSHOT)
    with pytest.raises(KeyError):
        reports.decode(reports.encode(report), {})


STEERING = st.builds(
    Steering,
    repetition_penalty=st.floats(0.1, 2),
    logit_bias=st.lists(st.tuples(IDS, st.floats(-100, 100)), max_size=3).map(tuple),
    bad_words=st.lists(st.lists(IDS, max_size=3).map(tuple), max_size=2).map(tuple),
)
SAMPLING = st.builds(
    Sampling,
    temperature=st.floats(0, 2),
    seed=st.integers(-(2**63), 2**63 - 1),
    steering=st.none() | STEERING,
    logprobs=st.none() | st.integers(0, 20),
)
REQUESTS = st.builds(
    Request,
    request_id=NAMES,
    prompt_token_ids=st.lists(IDS, min_size=1, max_size=5).map(tuple),
    max_tokens=COUNTS,
    arrival_s=SECONDS,
    sampling=SAMPLING,
    stop_token_ids=st.frozensets(IDS, max_size=3),
    tenant=st.text(st.characters(codec="utf-8"), max_size=5),
    queue_deadline_s=st.none() | SECONDS,
    block_salt=st.binary(max_size=16),
    past=st.none(),
)


@given(requests=st.lists(REQUESTS, max_size=3).map(tuple))
def test_requests_with_all_that_steers_them(requests: tuple[Request, ...]) -> None:
    command = say.Submit(requests)
    assert say.COMMANDS.validate_json(say.COMMANDS.dump_json(command)) == command


@pytest.mark.parametrize(
    "command",
    [
        say.Open(Rules(LIMITS), enable_prefix_caching=False),
        say.SetRules(7, Rules(LIMITS, PolicyName.FAIR, Contract({"a": Terms(2.0, 1)})), new_policy=True),
        say.Abort(("a", "b"), FinishReason.STOP),
        say.CloseAdmission(),
        say.Stop(),
    ],
    ids=lambda command: command.kind,
)
def test_a_command(command: say.Command) -> None:
    assert say.COMMANDS.validate_json(say.COMMANDS.dump_json(command)) == command


@pytest.mark.parametrize(
    "notice",
    [
        say.Loaded(FACTS),
        say.NotLoaded("add memory"),
        say.NotLoaded(None),
        say.RulesSet(7, None),
        say.Pulse(None, math.inf),
        say.Failed(),
    ],
    ids=repr,
)
def test_a_notice(notice: say.Notice) -> None:
    assert say.NOTICES.validate_json(say.NOTICES.dump_json(notice)) == notice


def test_a_value_of_another_type_is_the_senders_error() -> None:
    """In the core it would end the engine, and everybody's requests with it."""
    command = say.Submit((Request("a", (1,), max_tokens="many", arrival_s=0.0),))
    with pytest.raises(PydanticSerializationError):
        say.COMMANDS.dump_json(command, warnings="error")
