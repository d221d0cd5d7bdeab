"""Tokens and log probabilities of a request are the same to the last bit, whatever runs beside it and however
its prompt is cut, found in the cache, or computed again.

The model's MLP is wider than 1024: from there on oneDNN adds up a product of one row in another order.
"""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_families import make_llama
from model_oracle import load, serve, tokens_of

from headrace_engine.core.sampling import Sampling, Steering
from headrace_engine.runner.tokenizer import Tokenizer

NUM_TOKENS = 24
VOCABULARY = 512
SHARED = tokens_of(40, seed=1, vocabulary=VOCABULARY)
PROMPTS = [
    *(tokens_of(length, length, VOCABULARY) for length in (1, 2, 15, 16, 17, 33, 100)),
    *([*SHARED, *tokens_of(9, 50 + number, VOCABULARY)] for number in range(4)),
]
STEERED = Steering(repetition_penalty=1.3)
SAMPLINGS = [
    Sampling(temperature=0, logprobs=3),
    Sampling(temperature=0.9, seed=7, logprobs=0),
    Sampling(temperature=1.3, seed=8, top_p=0.9, steering=STEERED),
    Sampling(temperature=0.8, seed=9, top_k=20, prompt_logprobs=2),
]
REQUESTS = [(PROMPTS[n % len(PROMPTS)], SAMPLINGS[n % len(SAMPLINGS)]) for n in range(32)]
SCHEDULES = st.fixed_dictionaries(
    {
        "max_num_batched_tokens": st.integers(9, 300),
        "max_num_seqs": st.integers(3, 32),
        "num_blocks": st.integers(10, 256),
        "arrivals": st.lists(st.integers(0, 40), min_size=32, max_size=32),
    }
)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(
    scope="module", params=[("bfloat16", "auto"), ("float32", "auto"), ("bfloat16", "torch")], ids="-".join
)
def runner(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("wide")
    make_llama(directory, intermediate_size=1536)
    dtype, backend = request.param
    return load(directory, dtype=dtype, backend=backend)


def told(served, name):
    return served.tokens[name], served.logprobs[name], served.prompt_logprobs[name]


@pytest.fixture(scope="module")
def alone(runner):
    return [
        told(serve(runner, [prompt], NUM_TOKENS, max_num_batched_tokens=512, sampling=sampling), "r0")
        for prompt, sampling in REQUESTS
    ]


def assert_same(runner, alone, **schedule):
    prompts, samplings = [list(part) for part in zip(*REQUESTS, strict=True)]
    served = serve(runner, prompts, NUM_TOKENS, sampling=samplings, **schedule)
    for number, expected in enumerate(alone):
        assert told(served, f"r{number}") == expected
    return served


def test_in_a_batch_of_32(runner, alone):
    assert_same(runner, alone, max_num_batched_tokens=2048, max_num_seqs=32)


def test_cut_into_chunks_found_in_the_cache_and_computed_again(runner, alone):
    served = assert_same(
        runner, alone, max_num_batched_tokens=13, max_num_seqs=8, num_blocks=12, arrivals=list(range(32))
    )
    assert served.preemptions > 0
    assert served.cached_tokens > 0


@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(schedule=SCHEDULES)
def test_in_any_schedule(runner, alone, schedule):
    assert_same(runner, alone, **schedule)


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_of_the_real_model(smollm2_dir, dtype):
    runner = load(smollm2_dir, dtype=dtype)
    tokenizer = Tokenizer.load(smollm2_dir)
    texts = (
        "What is a water wheel?",
        "Name three fruits.",
        "The mill stands by the river. " * 6,
        "def f(x):",
    )
    prompts = [tokenizer.encode(text) for text in texts] * 8
    samplings = [Sampling(temperature=0.8, seed=number, logprobs=2) for number in range(32)]
    together = serve(runner, prompts, 12, max_num_batched_tokens=100, max_num_seqs=32, sampling=samplings)
    for number in range(0, 32, 5):
        each = serve(runner, [prompts[number]], 12, sampling=samplings[number])
        assert told(together, f"r{number}") == told(each, "r0")
