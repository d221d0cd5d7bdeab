"""Every family yields the greedy tokens of `transformers`, on both backends, under any schedule.

The models are tiny and random; those with a sliding window are asked for contexts several times as long.
"""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_families import FAMILIES, VOCABULARY, make
from model_oracle import Oracle, load, serve, tokens_of

from headrace_engine.runner.families import FAMILIES as SERVED

pytestmark = pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated:FutureWarning")

NEW_TOKENS = 12
SHARED = tokens_of(37, seed=99, vocabulary=VOCABULARY)
PROMPTS = (
    *(tokens_of(length, seed=length, vocabulary=VOCABULARY) for length in (1, 15, 16, 17, 20, 33, 90)),
    *([*SHARED, *tokens_of(length, seed=7 + length, vocabulary=VOCABULARY)] for length in (1, 12)),
)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    """A model's directory, what transformers generates for each prompt, and what it computes with."""
    directory = tmp_path_factory.mktemp("family")
    model = make(request.param, directory)
    return directory, [Oracle.ask(model, prompt, NEW_TOKENS) for prompt in PROMPTS], model


@pytest.fixture(scope="module", params=["native", "torch"])
def runner(request, family):
    return load(family[0], backend=request.param)


def assert_all_match(served, oracles, chosen=None):
    for number, which in enumerate(chosen or range(len(PROMPTS))):
        oracles[which].assert_matches(served.tokens[f"r{number}"])


def test_together_in_chunks(runner, family):
    served = serve(runner, PROMPTS, NEW_TOKENS, max_num_batched_tokens=24)
    assert_all_match(served, family[1])


def test_preempted_and_resumed(runner, family):
    served = serve(runner, PROMPTS, NEW_TOKENS, max_num_batched_tokens=32, num_blocks=9)
    assert served.preemptions > 0
    assert_all_match(served, family[1])


def test_with_a_prefix_from_the_cache(runner, family):
    chosen = (7, 8, 6, 6)
    served = serve(runner, [PROMPTS[which] for which in chosen], NEW_TOKENS, arrivals=[0, 3, 0, 4])
    assert served.cached_tokens >= 32 + 80
    assert_all_match(served, family[1], chosen)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chosen=st.lists(st.integers(0, len(PROMPTS) - 1), min_size=1, max_size=7),
    budget=st.integers(1, 70),
    seats=st.integers(1, 8),
    num_blocks=st.integers(8, 40),
    data=st.data(),
)
def test_under_any_schedule(runner, family, chosen, budget, seats, num_blocks, data):
    arrivals = data.draw(st.lists(st.integers(0, 12), min_size=len(chosen), max_size=len(chosen)))
    served = serve(
        runner,
        [PROMPTS[which] for which in chosen],
        NEW_TOKENS,
        max_num_batched_tokens=budget,
        max_num_seqs=min(seats, budget),
        num_blocks=num_blocks,
        arrivals=arrivals,
    )
    assert_all_match(served, family[1], chosen)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_in_bfloat16_every_token_is_one_that_float32_finds_nearly_best(family, backend):
    directory, _, model = family
    runner = load(directory, backend=backend, dtype="bfloat16")
    served = serve(runner, PROMPTS, NEW_TOKENS, max_num_batched_tokens=24)
    for number, prompt in enumerate(PROMPTS):
        tokens = served.tokens[f"r{number}"]
        with torch.inference_mode():
            logits = model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
        regret = logits.max(-1).values - logits.gather(1, torch.tensor(tokens)[:, None])[:, 0]
        assert (regret / logits.std(-1)).max() < 0.2


def test_every_family_that_is_served_is_tested():
    built = {make_config()[0].__name__ for make_config in FAMILIES.values()}
    assert built == SERVED.keys()
