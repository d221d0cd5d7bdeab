"""Greedy tokens equal those of `transformers`, whatever the batching, chunking, hits and preemptions."""

import pytest
import torch
from model_oracle import Oracle, load, serve, tokens_of
from transformers import AutoModelForCausalLM

from headrace_engine.core.sampling import Sampling
from headrace_engine.runner.tokenizer import Tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated:FutureWarning")

QUESTIONS = (
    "What is a water wheel?",
    "Why is the sky blue?",
    "Name three fruits.",
    "Write a short story about a miller who never sleeps, and about the river that keeps him company.",
    "Count from one to ten.",
    "def fibonacci(n):",
    "Translate 'good morning' into French, Spanish and Italian.",
    "Summarize: " + "The mill stands by the river, and the river feeds the mill. " * 12,
)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny_oracle(tiny_model_dir):
    return AutoModelForCausalLM.from_pretrained(tiny_model_dir, dtype=torch.float32)


@pytest.fixture(scope="module")
def edge_prompts():
    return [tokens_of(length, length) for length in (1, 2, 15, 16, 17, 31, 32, 33, 48, 100)]


@pytest.fixture(scope="module")
def edge_oracles(tiny_oracle, edge_prompts):
    return [Oracle.ask(tiny_oracle, prompt, 20) for prompt in edge_prompts]


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_prompts_around_block_edges_batched(tiny_model_dir, edge_prompts, edge_oracles, backend):
    runner = load(tiny_model_dir, backend=backend)
    served = serve(runner, edge_prompts, 20, max_num_batched_tokens=24)
    for number, oracle in enumerate(edge_oracles):
        oracle.assert_matches(served.tokens[f"r{number}"])


def test_prompts_alone(tiny_model_dir, edge_prompts, edge_oracles):
    runner = load(tiny_model_dir)
    for prompt, oracle in zip(edge_prompts, edge_oracles, strict=True):
        oracle.assert_matches(serve(runner, [prompt], 20).tokens["r0"])


def test_preempted_requests_resume_with_the_same_tokens(tiny_model_dir, edge_prompts, edge_oracles):
    runner = load(tiny_model_dir)
    served = serve(runner, edge_prompts, 20, max_num_batched_tokens=32, num_blocks=12)
    assert served.preemptions > 0
    for number, oracle in enumerate(edge_oracles):
        oracle.assert_matches(served.tokens[f"r{number}"])


def test_a_shared_prefix_is_read_from_the_cache(tiny_model_dir, tiny_oracle):
    runner = load(tiny_model_dir)
    shared = tokens_of(40, seed=1)
    prompts = [[*shared, *tokens_of(5, seed=n)] for n in range(4)]
    served = serve(runner, prompts, 10, max_num_batched_tokens=50)
    for number, prompt in enumerate(prompts):
        Oracle.ask(tiny_oracle, prompt, 10).assert_matches(served.tokens[f"r{number}"])


def test_seeded_sampling_does_not_depend_on_the_batch(tiny_model_dir, edge_prompts):
    runner = load(tiny_model_dir)
    for sampling in (
        Sampling(temperature=0.9, seed=11),
        Sampling(temperature=1.3, top_k=20, seed=12),
        Sampling(temperature=1.0, top_p=0.8, seed=13),
    ):
        together = serve(runner, edge_prompts, 12, sampling=sampling).tokens
        for number, prompt in enumerate(edge_prompts):
            alone = serve(runner, [prompt], 12, sampling=sampling).tokens["r0"]
            assert together[f"r{number}"] == alone


@pytest.mark.parametrize("block_size", [7, 10])
def test_in_bfloat16_the_reference_resumes_with_the_same_tokens(tiny_model_dir, block_size, edge_prompts):
    """Computed one by one or together, tokens see sums that round alike."""
    runner = load(tiny_model_dir, backend="torch", dtype="bfloat16", block_size=block_size)
    calm = serve(runner, edge_prompts, 40, max_num_batched_tokens=512)
    short = serve(runner, edge_prompts, 40, max_num_batched_tokens=512, num_blocks=-(-210 // block_size))
    assert short.preemptions > 0
    assert short.tokens == calm.tokens


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_in_bfloat16_every_token_is_one_that_float32_finds_nearly_best(
    tiny_model_dir, tiny_oracle, edge_prompts, backend
):
    runner = load(tiny_model_dir, backend=backend, dtype="bfloat16")
    served = serve(runner, edge_prompts, 12)
    for number, prompt in enumerate(edge_prompts):
        tokens = served.tokens[f"r{number}"]
        with torch.inference_mode():
            logits = tiny_oracle(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
        regret = logits.max(-1).values - logits.gather(1, torch.tensor(tokens)[:, None])[:, 0]
        assert (regret / logits.std(-1)).max() < 0.1


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_real_model_batched_chunked_and_alone(smollm2_dir):
    tokenizer = Tokenizer.load(smollm2_dir)
    prompts = [tokenizer.apply_chat_template([{"role": "user", "content": text}]) for text in QUESTIONS]
    reference = AutoModelForCausalLM.from_pretrained(smollm2_dir, dtype=torch.float32)
    oracles = [Oracle.ask(reference, prompt, 48) for prompt in prompts]
    del reference
    runner = load(smollm2_dir)
    batched = serve(runner, prompts, 48, max_num_batched_tokens=100)
    assert batched.steps > 50
    for number, (prompt, oracle) in enumerate(zip(prompts, oracles, strict=True)):
        oracle.assert_matches(batched.tokens[f"r{number}"])
        oracle.assert_matches(serve(runner, [prompt], 48).tokens["r0"])
