"""What counts as a token, and which ends of a stream are good ones."""

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_bench.record import Outcome
from headrace_bench.stream import EventReader, Transcript

DONE = b"[DONE]"


def chunk(text=None, finish=None, role=None):
    delta = {key: value for key, value in (("role", role), ("content", text)) if value is not None}
    return orjson.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None})


def read(*events):
    """A transcript of events that arrive one second apart, the first at second 1."""
    transcript = Transcript()
    for second, event in enumerate(events, start=1):
        transcript.event(event, float(second))
    return transcript


def test_the_opening_role_chunk_is_no_token():
    transcript = read(chunk("", role="assistant"), chunk("Hel"), chunk("lo"), chunk(finish="stop"), DONE)
    assert transcript.token_times_s == [2.0, 3.0]
    assert "".join(transcript.texts) == "Hello"
    assert transcript.verdict() == (Outcome.OK, "")
    assert transcript.last_event_s == 5.0


def test_an_answer_without_text_has_its_end_as_first_token():
    transcript = read(chunk("", role="assistant"), chunk(finish="stop"), DONE)
    assert transcript.token_times_s == [2.0]
    assert transcript.verdict()[0] is Outcome.OK


def test_completions_count_as_chats_do():
    text = orjson.dumps({"choices": [{"index": 0, "text": "Hi", "finish_reason": "length"}]})
    usage = orjson.dumps({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1}})
    transcript = read(text, usage, DONE)
    assert (transcript.token_times_s, transcript.prompt_tokens, transcript.output_tokens) == ([1.0], 7, 1)
    assert transcript.verdict()[0] is Outcome.OK


@pytest.mark.parametrize(
    ("events", "lost", "says"),
    [
        ([chunk("a"), DONE], None, "finish_reason missing"),
        ([chunk("a"), chunk(finish="abort"), DONE], None, "finish_reason abort"),
        ([chunk("a"), chunk(finish="stop")], None, "without [DONE]"),
        ([chunk("a")], "ReadError", "ReadError"),
        ([], "ReadError", "ReadError"),
        ([], None, "finish_reason missing"),
        ([chunk("a"), orjson.dumps({"error": {"message": "out of blocks"}}), DONE], None, "out of blocks"),
        ([chunk("a"), b"{half"], None, "no JSON"),
        ([chunk("a"), b"[1]"], None, "no JSON object"),
    ],
)
def test_every_other_end_is_a_broken_stream_that_says_why(events, lost, says):
    outcome, detail = read(*events).verdict(lost)
    assert outcome is Outcome.BROKEN
    assert says in detail


def test_an_error_before_the_first_token_breaks_no_stream():
    outcome, detail = read(orjson.dumps({"error": {"message": "no such model"}}), DONE).verdict()
    assert (outcome, detail) == (Outcome.FAILED, "no such model")


def test_a_connection_that_closes_rudely_after_done_is_no_loss():
    assert read(chunk("a"), chunk(finish="stop"), DONE).verdict("ReadError")[0] is Outcome.OK


@given(
    texts=st.lists(st.text(max_size=8), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    crlf=st.booleans(),
)
def test_events_survive_any_cut_and_any_unicode(texts, cuts, crlf):
    """U+2028 and its like end no line here; a chunk may end inside a character."""
    end = b"\r\n" if crlf else b"\n"
    # JSON as some servers write it, unescaped; its own line feeds are always escaped.
    wire = b"".join(b"data: " + orjson.dumps(text) + end + end for text in texts)
    bounds = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    reader = EventReader()
    events = [event for low, high in pairwise(bounds) for event in reader.push(wire[low:high])]
    assert [orjson.loads(event) for event in events] == texts


def test_comments_and_other_fields_are_passed_over():
    assert EventReader().push(b": ping\n\nevent: x\nid: 3\ndata:one\ndata: two\n\n") == [b"one\ntwo"]
