"""One request, at most 8 MiB, that brought other servers down. Here it is refused or served, and the client
beside it notices nothing.

Each case names what happened elsewhere; `docs/security.md` lists them with their sources.
"""

from collections.abc import Callable
from typing import Any

import pytest
from attacked_server import AttackedServer, chat, completion, post

from headrace_engine.server.bounds import MAX_SCORES

KI = 1024
VOCABULARY = 1024
MOST_CHARACTERS = 8 * 131_072
"""Of a prompt for the target's context."""
MOST_ASTRAL = (4 << 20) // 4 - KI
"""Of those beyond U+FFFF: a body of them may have 4 MiB."""


def refused(target: AttackedServer, *bodies: dict[str, Any], param: str) -> None:
    answers = target.unharmed(*(post(body) for body in bodies))
    assert [answer.status for answer in answers] == [400] * len(bodies)
    assert {answer.param for answer in answers} == {param}


@pytest.mark.parametrize("wanted", [5_000_000, 2**31, 2**63 - 1, 0, -1])
def test_five_million_choices_are_refused_before_anything_is_made_for_them(target, wanted) -> None:
    """65 bytes made other servers allocate 22 GB before the request reached the queue (CVE-2026-34756)."""
    refused(target, completion(n=wanted), chat(n=wanted), param="n")


def test_choices_are_counted_over_all_prompts(target) -> None:
    answers = target.unharmed(post(completion(prompt=["a"] * 8, n=8, temperature=1)))
    assert [answer.status for answer in answers] == [400]


@pytest.mark.parametrize("count", [VOCABULARY - 1, VOCABULARY, VOCABULARY + 1, 2**31, -1])
def test_logprobs_of_a_whole_vocabulary_are_refused(target, count) -> None:
    """More alternatives than tokens killed a scheduler; for a whole prompt they took 62 GiB, and a guard
    against -1 alone was passed by naming the vocabulary's size.
    """
    refused(target, completion(prompt_logprobs=count), chat(prompt_logprobs=count), param="prompt_logprobs")
    refused(target, completion(logprobs=count), param="logprobs")
    (answer,) = target.unharmed(post(chat(logprobs=True, top_logprobs=count)))
    assert (answer.status, (answer.param or "")[-8:]) == (400, "logprobs")


def ids(told_for_each: int) -> list[int]:
    """A prompt of as many tokens as may be told of."""
    return [50] * (MAX_SCORES // told_for_each - 4)


SCORED = {
    "a prompt, with two others": completion(prompt=ids(3), prompt_logprobs=2),
    "a prompt, with 20 others": completion(prompt=ids(21), prompt_logprobs=20),
    "an echo, with two others": completion(prompt=ids(3), echo=True, logprobs=2),
    "eight echoes": completion(prompt=ids(8), echo=True, logprobs=0, n=8),
}


@pytest.mark.parametrize("body", SCORED.values(), ids=SCORED)
def test_as_many_log_probabilities_as_may_be_cost_little_and_more_are_refused(target, body) -> None:
    told = "logprobs" if body.get("echo") else "prompt_logprobs"
    assert target.unharmed(post(body))[0].status == 200
    refused(target, body | {"prompt": body["prompt"] + [50] * 20}, param=told)


@pytest.mark.parametrize("name", ["stop", "stop_token_ids"])
def test_half_a_million_stop_strings_are_refused_on_every_route(target, name) -> None:
    """They cost 54 s, and the first fix left other routes open."""
    many = [["a"], [1]][name != "stop"] * 320_000
    refused(target, completion(**{name: many}), chat(**{name: many}), param=name)
    huge = {"stop": "s" * 8_000_000, "stop_token_ids": [2**31 - 1]}[name]
    refused(target, completion(**{name: huge}), chat(**{name: huge}), param=name)


@pytest.mark.parametrize("token_id", [VOCABULARY, 2**31 - 1])
def test_a_token_that_the_model_has_not_is_refused_in_every_field(target, token_id) -> None:
    """It is an index into a table on the device: an assertion there ends the process."""
    refused(target, completion(prompt=[token_id]), param="prompt")
    refused(target, completion(stop_token_ids=[token_id]), param="stop_token_ids")
    refused(target, completion(logit_bias={str(token_id): 1}), param="logit_bias")
    refused(target, completion(allowed_token_ids=[token_id]), param="allowed_token_ids")


LITERALS = (b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"9" * 400)
NUMBERS = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "repetition_penalty", "seed", "n")


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_finite_number_is_refused_and_its_error_can_be_written(target, name) -> None:
    """NaN poisoned a device; an error that quoted 1e400 could not be encoded and became a 500."""
    bodies = [
        b'{"model":"target","prompt":"a","max_tokens":1,"%b":%b}' % (name.encode(), literal)
        for literal in LITERALS
    ]
    answers = target.unharmed(*map(post, bodies))
    assert [(answer.status, answer.param) for answer in answers] == [(400, name)] * len(LITERALS)


VARIABLES = (
    {"messages": []},
    {"chat_template": "{{ 1 }}"},
    {"bos_token": "<|im_start|>"},
    {"x": "y" * 8_000_000},
    {"x": {"y": 1}},
    {"x": [1]},
    dict.fromkeys(map("x{}".format, range(4000)), 1),
)


def test_a_request_brings_no_template(target) -> None:
    """CVE-2025-62426, CVE-2025-61620: a template in a request, or a variable that replaced the model's own,
    kept the event loop busy.
    """
    refused(target, chat(chat_template="{{ 'a' * 10**9 }}"), param="chat_template")
    answers = target.unharmed(*(post(chat(chat_template_kwargs=variables)) for variables in VARIABLES))
    assert [answer.status for answer in answers] == [400] * len(VARIABLES)
    assert {(answer.param or "")[:20] for answer in answers} == {"chat_template_kwargs"}


def test_no_prompt_at_all_is_refused(target) -> None:
    """An empty prompt crashed a server."""
    bodies = [completion(prompt=prompt) for prompt in ("", [], [[]], [""], None)]
    bodies += [chat(messages=[]), chat(messages=None), chat([])]
    answers = target.unharmed(*map(post, bodies))
    assert [answer.status for answer in answers] == [400] * len(bodies)
    assert {(answer.param or "")[:6] for answer in answers} == {"prompt", "messag"}


NESTED = {"type": "object", "properties": {}}
for _ in range(50):
    NESTED = {"type": "object", "properties": {"a": NESTED, "b": NESTED}} if _ < 12 else {"not": NESTED}
GRAMMARS = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"pattern": "(a+)+$"}}},
    "structured_outputs": {"regex": "(" * 5000},
    "guided_regex": "(a|a)*" * 100,
    "guided_grammar": "root ::= " + "(" * 30_000,
    "guided_json": {"$ref": "#"},
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_grammar_that_would_compile_for_ever_is_refused_by_name(target, name) -> None:
    """Bad expressions killed engines, nested ones compiled for hours, 60,000 groups overflowed a stack. There
    is no grammar here: what asks for one is refused, twenty times over, and the next request is served.
    """
    refused(target, *[completion(**{name: GRAMMARS[name]})] * 20, param=name)
    assert target.unharmed(post(completion()))[0].status == 200


DEEP: dict[str, Callable[[], bytes]] = {
    "two million brackets": lambda: b"[" * 2_000_000,
    "closed again": lambda: b'{"a":' * 70 + b"1" + b"}" * 70,
    "in a parameter": lambda: b'{"model":"target","prompt":' + b"[" * 100 + b"1" + b"]" * 100 + b"}",
    "wide": lambda: b"[" + b"[]," * 1_000_000 + b"1]",
}


@pytest.mark.parametrize("make", DEEP.values(), ids=DEEP)
def test_deep_json_overflows_no_stack(target, make) -> None:
    """CVE-2024-27454, CVE-2025-67221: a parser's recursion, on the way in and on the way out."""
    assert target.unharmed(post(make()))[0].status == 400


BODIES: dict[str, Callable[[], bytes]] = {
    "2.7 million empty strings": lambda: b'["' + b'","' * 2_700_000 + b'"]',
    "strings of one backslash": lambda: b"[" + b'"\\\\",' * 1_600_000 + b'""]',
    "one string of quotes": lambda: b'"' + b'\\"' * 4_100_000 + b'"',
    "a string that never ends": lambda: b'"' + b'\\"' * 4_100_000,
    "320,000 keys": lambda: b"{" + b",".join(b'"%d":1' % key for key in range(320_000)) + b"}",
    "60,000 keys of one object": lambda: b"{" + b",".join(b'"%d":1' % key for key in range(60_000)) + b"}",
    "a key of 8 MB": lambda: b'{"' + b"k" * 8_000_000 + b'":1}',
    "a key of 8 MB, its value no character": lambda: b'{"' + b"k" * 8_000_000 + b'":"\\ud800"}',
    "320,000 numbers": lambda: b'{"prompt":[' + b"9223372036854775807," * 320_000 + b"1]}",
    "a number of 8 MB": lambda: b'{"n":' + b"9" * 8_000_000 + b"}",
    "half a number of 8 MB": lambda: b'{"n":0.' + b"9" * 8_000_000 + b"}",
    "8 MB in UTF-16": lambda: ('{"model":"' + "a" * 4_000_000 + '"}').encode("utf-16"),
    "8 MB of one wide character's company": lambda: b'{"prompt":"' + b"a" * 8_300_000 + "😀".encode() + b'"}',
    "a name twice": lambda: b'{"model":"target","model":"target","prompt":"a"}',
    "a character that is none": lambda: b'{"model":"target","prompt":"\\udfff"}',
    "a name of 8 MB": lambda: b'{"model":"' + b"m" * 8_000_000 + b'","prompt":"a"}',
}


@pytest.mark.parametrize("make", BODIES.values(), ids=BODIES)
def test_a_body_at_the_bound_costs_little_whatever_is_in_it(target, make) -> None:
    """100 MB were buffered elsewhere; UTF-16, a key twice and halves of characters were taken."""
    assert target.unharmed(post(make()))[0].status in (400, 413)


MESSAGES: dict[str, Callable[[], dict[str, Any]]] = {
    "130,000 wrong parts": lambda: chat(messages=[{"role": "user", "content": [1] * 64}] * 2048),
    "2,048 wrong messages": lambda: chat(messages=[{"a": 1, "b": 2, "c": 3}] * 2048),
    "300,000 messages": lambda: chat(messages=[1] * 300_000),
    "2,049 messages": lambda: chat(messages=[{"role": "user", "content": "a"}] * 2049),
    "28,000 parts of control tokens": lambda: chat(
        messages=[{"role": "user", "content": [{"type": "text", "text": "<|im_end|>"}] * 14}] * 2048
    ),
    "64,000 unknown keys": lambda: chat(messages=[dict.fromkeys(map(str, range(4000)), 1)] * 16),
}


@pytest.mark.parametrize("make", MESSAGES.values(), ids=MESSAGES)
def test_the_first_error_of_many_is_told_and_the_others_are_not_made(target, make) -> None:
    (answer,) = target.unharmed(post(make()))
    assert answer.status == 400
    assert (answer.param or "").startswith("messages")
    assert len(answer.body) < KI


def test_a_long_history_is_looked_at_once(target) -> None:
    """A scan of all messages for each message took minutes."""
    messages = [{"role": "user", "content": "a"}] * 2048
    assert target.unharmed(post(chat(messages=messages)))[0].status == 200


ALPHABETS = {
    "one letter": "a",
    "spaces": " ",
    "Han": "漢",
    "emoji": "😀",
    "control tokens": "<|im_end|>",
    "half": "<|im_",
}


@pytest.mark.parametrize("text", ALPHABETS.values(), ids=ALPHABETS)
def test_the_longest_text_that_is_read_costs_little(target, text) -> None:
    """A million characters took seconds and 600 MiB to tokenize, and held the interpreter meanwhile."""
    most = MOST_CHARACTERS if max(text) <= "\uffff" else MOST_ASTRAL
    longest = text * (most // len(text))
    one_too_long = text * (MOST_CHARACTERS // len(text) + 1)
    fitting = text * (40_000 // len(text.encode()))
    requests = [post(body) for one in (longest, one_too_long) for body in (completion(prompt=one), chat(one))]
    answers = target.unharmed(*requests)
    assert [answer.status for answer in answers] == [400, 400, *[400 if most == MOST_CHARACTERS else 413] * 2]
    assert [answer.param for answer in answers[:2]] == ["prompt", "messages"]
    served = target.unharmed(post(completion(prompt=fitting)), post(chat(fitting)))
    assert [answer.status for answer in served] == [200, 200]


def test_many_prompts_are_counted_together(target) -> None:
    fitting = "hello world " * 5_900
    eight, many = (post(completion(prompt=[fitting] * count)) for count in (8, 64))
    assert [answer.status for answer in target.unharmed(eight, many)] == [200, 400]


def test_as_many_tokens_as_fit_are_served(target) -> None:
    assert target.unharmed(post(completion(prompt=[1] * 131_000)))[0].status == 200


def test_a_text_of_as_many_tokens_as_fit_is_served_and_one_of_many_more_is_not(target) -> None:
    """What is encoded whole takes some hundred bytes a token; this one has three a character."""
    texts = ("漢" * (num_tokens // 3) for num_tokens in (131_000, 145_000))
    answers = target.unharmed(*(post(completion(prompt=text)) for text in texts))
    assert [answer.status for answer in answers] == [200, 400]


MEDIA = [
    {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest"}},
    {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
    {"type": "file", "file": {"file_id": "x"}},
    {"type": "video_url", "video_url": {"url": "file:///etc/passwd"}},
]


@pytest.mark.parametrize("part", MEDIA, ids=lambda part: part["type"])
def test_a_request_opens_no_connection(target, part) -> None:
    """CVE-2026-24779, CVE-2026-0599: an image's address made servers fetch what only they could reach."""
    refused(target, chat([part]), param="messages[0].content[0].type")
