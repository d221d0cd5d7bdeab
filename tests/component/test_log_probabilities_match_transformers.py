"""Log probabilities equal those of `transformers` within 1e-3, of prompts and outputs, in any schedule."""

import pytest
import torch
from model_oracle import load, serve, tokens_of
from transformers import AutoModelForCausalLM

from headrace_engine.core.sampling import Sampling, Steering
from headrace_engine.runner.tokenizer import Tokenizer

CLOSE = 1e-3
NUM_TOP = 5
SHARED = tokens_of(40, seed=1)
PROMPTS = [
    *(tokens_of(length, length) for length in (1, 2, 16, 17, 33, 100)),
    *([*SHARED, *tokens_of(9, seed=50 + number)] for number in range(3)),
]
TOLD = Sampling(temperature=0, logprobs=NUM_TOP, prompt_logprobs=NUM_TOP)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny_oracle(tiny_model_dir):
    return AutoModelForCausalLM.from_pretrained(tiny_model_dir, dtype=torch.float32)


@pytest.fixture(scope="module")
def runner(tiny_model_dir):
    return load(tiny_model_dir)


def assert_told(oracle, prompt, output, of_prompt, of_output):
    """Everything that was told of one request."""
    ids = [*prompt, *output]
    with torch.inference_mode():
        rows = oracle(torch.tensor([ids])).logits[0, :-1].float().log_softmax(-1)
    told = [*of_prompt, *of_output]
    assert len(of_output) == len(output)
    assert len(told) in (len(output), len(ids) - 1)
    rows = rows[len(rows) - len(told) :]
    for row, token_id, each in zip(rows, ids[len(ids) - len(told) :], told, strict=True):
        assert abs(each.logprob - float(row[token_id])) < CLOSE
        best = row.topk(len(each.top_ids)).values
        assert (torch.tensor(each.top_logprobs) - best).abs().max() < CLOSE
        assert (row[list(each.top_ids)] - best).abs().max() < CLOSE
        better = int((row > row[token_id] + CLOSE).sum()), int((row >= row[token_id] - CLOSE).sum())
        assert better[0] < each.rank <= better[1]


@pytest.mark.parametrize(
    "schedule",
    [
        {"max_num_batched_tokens": 512},
        {"max_num_batched_tokens": 13},
        {"max_num_batched_tokens": 64, "num_blocks": 14},
    ],
    ids=["whole", "chunked", "preempted"],
)
def test_prompts_and_outputs_are_told_whatever_the_schedule(runner, tiny_oracle, schedule):
    served = serve(runner, PROMPTS, 60, sampling=TOLD, **schedule)
    assert (served.preemptions > 0) == ("num_blocks" in schedule)
    for number, prompt in enumerate(PROMPTS):
        name = f"r{number}"
        of_prompt = served.prompt_logprobs[name]
        assert len(of_prompt) == len(prompt) - 1
        assert_told(tiny_oracle, prompt, served.tokens[name], of_prompt, served.logprobs[name])


def test_a_prompt_that_is_in_the_cache_is_scored_all_the_same(runner, tiny_oracle):
    prompts, late = [PROMPTS[-1], PROMPTS[-1]], [0, 8]
    plain = Sampling(temperature=0, logprobs=NUM_TOP)
    served = serve(runner, prompts, 6, sampling=[TOLD, TOLD], arrivals=late)
    assert served.cached_tokens == 0
    assert served.prompt_logprobs["r0"][5].logprob == pytest.approx(
        served.prompt_logprobs["r1"][5].logprob, abs=CLOSE
    )
    hit = serve(runner, prompts, 6, sampling=[TOLD, plain], arrivals=late)
    assert hit.cached_tokens == 48
    assert_told(tiny_oracle, prompts[1], hit.tokens["r1"], [], hit.logprobs["r1"])


def test_outputs_of_one_prompt_share_its_blocks(runner):
    prompts = [PROMPTS[-1]] * 4
    served = serve(*(runner, prompts, 6), sampling=Sampling(temperature=0), leaders=["", "r0", "r0", "r0"])
    assert served.cached_tokens == 3 * 48
    assert len({tuple(tokens) for tokens in served.tokens.values()}) == 1


STEERED = [
    Sampling(
        temperature=0.9, seed=7, steering=Steering(presence_penalty=1.0, frequency_penalty=0.5), logprobs=2
    ),
    Sampling(temperature=1.2, seed=8, min_p=0.02, steering=Steering(repetition_penalty=1.3)),
    Sampling(temperature=0.7, seed=9, top_p=0.9, steering=Steering(logit_bias=((5, 3.0), (9, -100.0)))),
    Sampling(temperature=0, steering=Steering(frequency_penalty=2.0), logprobs=0),
    Sampling(temperature=1.5, seed=10, top_k=40),
]


def test_what_is_said_does_not_depend_on_the_schedule(runner):
    """A batch of 32, in chunks and with preemptions, says what each request says alone."""
    prompts = [PROMPTS[number % len(PROMPTS)] for number in range(32)]
    samplings = [STEERED[number % len(STEERED)] for number in range(32)]
    together = serve(
        *(runner, prompts, 60),
        sampling=samplings,
        max_num_batched_tokens=60,
        max_num_seqs=32,
        num_blocks=30,
    )
    assert together.preemptions > 0
    alone = {}
    for number, (prompt, sampling) in enumerate(zip(prompts, samplings, strict=True)):
        key = (number % len(PROMPTS), number % len(STEERED))
        if key not in alone:
            alone[key] = serve(runner, [prompt], 60, sampling=sampling)
        assert together.tokens[f"r{number}"] == alone[key].tokens["r0"]
        for one, other in zip(together.logprobs[f"r{number}"], alone[key].logprobs["r0"], strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=CLOSE)


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_real_model_tells_what_transformers_does(smollm2_dir):
    tokenizer = Tokenizer.load(smollm2_dir)
    texts = ("The mill stands by the river. " * 6, "Grüße, 世界! def f(x): return x", "One")
    prompts = [tokenizer.encode(text) for text in texts]
    served = serve(load(smollm2_dir), prompts, 16, sampling=TOLD, max_num_batched_tokens=40)
    reference = AutoModelForCausalLM.from_pretrained(smollm2_dir, dtype=torch.float32)
    for number, prompt in enumerate(prompts):
        name = f"r{number}"
        assert_told(
            *(reference, prompt, served.tokens[name]), served.prompt_logprobs[name], served.logprobs[name]
        )
