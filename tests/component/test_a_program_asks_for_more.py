"""`SamplingParams` in full, on a real model: what the HTTP API takes, under vLLM's names."""

import itertools

import pytest

from headrace_engine import LLM, SamplingParams
from headrace_engine.offline import Logprob, RequestRefused
from headrace_engine.runner.tokenizer import Tokenizer

PROMPT = "Once upon a time there was a mill by the river, and"
GREEDY = {"temperature": 0, "max_tokens": 12, "ignore_eos": True}


@pytest.fixture(scope="module")
def llm(tiny_model_dir):
    with LLM(
        str(tiny_model_dir), threads=1, max_num_seqs=32, max_model_len=128, num_gpu_blocks_override=80
    ) as it:
        yield it


@pytest.fixture(scope="module")
def tokenizer(tiny_model_dir):
    return Tokenizer.load(tiny_model_dir)


def one(llm, prompt=PROMPT, **params):
    (answer,) = llm.generate(prompt, SamplingParams(**params))
    return answer


def test_log_probabilities_are_by_id_with_the_token_itself(llm, tokenizer) -> None:
    output = one(llm, **GREEDY, logprobs=3).outputs[0]
    assert len(output.logprobs) == len(output.token_ids) == 12
    for token_id, told in zip(output.token_ids, output.logprobs, strict=True):
        assert isinstance(told[token_id], Logprob)
        assert told[token_id].rank == 1
        assert len(told) == 3
        spelled = tokenizer.token_bytes(token_id).decode(errors="backslashreplace")
        assert told[token_id].decoded_token == spelled
    own = sum(
        told[token_id].logprob for token_id, told in zip(output.token_ids, output.logprobs, strict=True)
    )
    assert output.cumulative_logprob == pytest.approx(own)


def test_what_is_not_asked_is_none(llm) -> None:
    answer = one(llm, **GREEDY)
    assert answer.prompt_logprobs is None
    assert answer.outputs[0].logprobs is answer.outputs[0].cumulative_logprob is None


def test_a_prompt_is_scored_as_an_output_would_be(llm) -> None:
    """What was said, given back as a prompt, is as likely as when it was said."""
    said = one(llm, **GREEDY, logprobs=0)
    whole = [*said.prompt_token_ids, *said.outputs[0].token_ids]
    scored = one(llm, whole, max_tokens=1, prompt_logprobs=2)
    assert scored.prompt_logprobs[0] is None
    assert len(scored.prompt_logprobs) == len(whole)
    for token_id, told, again in zip(
        said.outputs[0].token_ids, said.outputs[0].logprobs, scored.prompt_logprobs[-12:], strict=True
    ):
        assert again[token_id].logprob == pytest.approx(told[token_id].logprob, abs=1e-3)


def test_a_conversation_is_told_of_too(llm) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    (answer,) = llm.chat(messages, SamplingParams(**GREEDY, logprobs=2, prompt_logprobs=0))
    assert len(answer.outputs[0].logprobs[0]) == 2
    assert len(answer.prompt_logprobs) == len(answer.prompt_token_ids)


def test_a_conversation_can_be_continued_where_it_stands(llm, tokenizer) -> None:
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Once upon"}]
    (answer,) = llm.chat(messages, SamplingParams(**GREEDY), continue_final_message=True)
    assert tokenizer.decode(answer.prompt_token_ids).endswith("Once upon")
    with pytest.raises(RequestRefused) as refused:
        llm.chat(messages, SamplingParams(**GREEDY), continue_final_massage=True)
    assert refused.value.param == "continue_final_massage"


def test_several_outputs_of_one_prompt(llm) -> None:
    answer = one(llm, n=4, seed=3, temperature=1.5, max_tokens=8, ignore_eos=True)
    assert [output.index for output in answer.outputs] == [0, 1, 2, 3]
    assert len({output.token_ids for output in answer.outputs}) == 4
    alone = [one(llm, seed=3 + n, temperature=1.5, max_tokens=8, ignore_eos=True) for n in range(4)]
    assert [each.outputs[0].token_ids for each in alone] == [output.token_ids for output in answer.outputs]


def test_equal_seeds_say_the_same_alone_and_among_32(llm) -> None:
    params = [
        SamplingParams(
            seed=number,
            temperature=0.9,
            min_p=0.01 * (number % 3),
            top_p=1 - 0.1 * (number % 2),
            presence_penalty=float(number % 4 == 3),
            max_tokens=20,
            ignore_eos=True,
        )
        for number in range(32)
    ]
    prompts = [f"{PROMPT} {number % 5}" for number in range(32)]
    together = llm.generate(prompts, params)
    for number in (0, 3, 7, 18, 31):
        (alone,) = llm.generate(prompts[number], params[number])
        assert alone.outputs == together[number].outputs


def test_a_program_with_an_engine_seed_says_the_same_again(tiny_model_dir) -> None:
    def said(seed):
        with LLM(str(tiny_model_dir), threads=1, max_model_len=64, seed=seed) as llm:
            free = SamplingParams(max_tokens=8, n=2, ignore_eos=True)
            return [answer.outputs for answer in llm.generate(["a", "b"], free)]

    assert said(5) == said(5)
    assert said(5) != said(6)


def test_a_bias_forces_and_forbids(llm) -> None:
    (first, *_) = one(llm, **GREEDY).outputs[0].token_ids
    assert set(one(llm, **GREEDY, logit_bias={77: 100}).outputs[0].token_ids) == {77}
    assert first not in one(llm, **GREEDY, logit_bias={first: -100}).outputs[0].token_ids


def test_nothing_but_what_is_allowed_is_said(llm) -> None:
    assert set(one(llm, **GREEDY, allowed_token_ids=[77, 78]).outputs[0].token_ids) <= {77, 78}


def test_penalties_keep_from_repeating(llm) -> None:
    """A tiny model repeats itself; the strongest penalty lets no token come twice."""
    long = GREEDY | {"max_tokens": 40}
    plain = one(llm, **long).outputs[0].token_ids
    assert len(set(plain)) < len(plain)
    for penalty in ({"frequency_penalty": 2.0}, {"presence_penalty": 2.0}, {"repetition_penalty": 1.5}):
        assert len(set(one(llm, **long, **penalty).outputs[0].token_ids)) > len(set(plain))


def test_a_bad_word_is_not_said_in_any_of_its_spellings(llm, tokenizer) -> None:
    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False)

    said = one(llm, **GREEDY).outputs[0].token_ids
    words = {token_id: tokenizer.decode([token_id]).strip() for token_id in said}
    whole = {token_id: word for token_id, word in words.items() if word and ids(word) == [token_id]}
    pairs = [(first, then) for first, then in itertools.pairwise(said)]
    pair = next(pair for pair in pairs if ids(tokenizer.decode(pair)) == list(pair))
    bad = [*whole.values(), tokenizer.decode(pair)]
    banned = one(llm, **GREEDY, bad_words=bad).outputs[0].token_ids
    assert whole
    assert not whole.keys() & set(banned)
    assert pair not in list(itertools.pairwise(banned))


def test_what_ends_an_output_is_not_said_before_its_least_length(llm) -> None:
    (first, *_) = one(llm, **GREEDY).outputs[0].token_ids
    at_once = one(llm, temperature=0, max_tokens=12, stop_token_ids=[first]).outputs[0]
    assert at_once.token_ids == (first,)
    late = one(llm, temperature=0, max_tokens=12, stop_token_ids=[first], min_tokens=5).outputs[0]
    assert first not in late.token_ids[:5]
    assert len(late.token_ids) >= 5


def test_a_stop_string_can_stay(llm) -> None:
    text = one(llm, **GREEDY).outputs[0].text
    stop = text[4:7]
    kept = one(llm, **GREEDY, stop=stop, include_stop_str_in_output=True).outputs[0]
    assert kept.text == text[: text.index(stop) + len(stop)]


def test_a_stream_has_one_output(llm) -> None:
    with pytest.raises(RequestRefused, match="leave n out"):
        llm.stream(PROMPT, SamplingParams(n=2))


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"n": 9}, "n"),
        ({"logprobs": 21}, "logprobs"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"logit_bias": {10**6: 1}}, "logit_bias"),
        ({"min_p": 2}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"allowed_token_ids": [10**6]}, "allowed_token_ids"),
    ],
)
def test_what_the_api_refuses_is_refused_by_name(llm, params, param) -> None:
    with pytest.raises(RequestRefused) as refused:
        one(llm, **params)
    assert refused.value.param == param
