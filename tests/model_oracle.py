"""Requests served by the real scheduler and a runner, and what `transformers` says they must yield.

Both compute in float32, yet sums are taken in another order when another number of rows shares a product, so
logits differ in the last digits. Where the two best tokens are closer than that, either is right: the
comparison ends there.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import torch

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Preempted, PromptLogprobs, Scheduled, Tokens
from headrace_engine.core.request import Request
from headrace_engine.core.sampling import Sampling
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.runner.model_runner import ModelRunner

BLOCK_SIZE = 16
NEAR_TIE = 2e-3


@dataclass
class Served:
    tokens: dict[str, list[int]]
    preemptions: int = 0
    steps: int = 0
    cached_tokens: int = 0
    logprobs: dict[str, list] = field(default_factory=lambda: defaultdict(list))
    prompt_logprobs: dict[str, list] = field(default_factory=lambda: defaultdict(list))


def load(directory, *, backend="auto", dtype="float32", num_blocks=256, block_size=BLOCK_SIZE):
    return ModelRunner.load(
        directory,
        dtype=dtype,
        threads=1,
        max_model_len=512,
        block_size=block_size,
        num_blocks=num_blocks,
        attention_backend=backend,
    )


def serve(
    runner,
    prompts,
    max_tokens,
    *,
    max_num_batched_tokens=64,
    max_num_seqs=16,
    num_blocks=256,
    sampling=None,
    arrivals=None,
    leaders=None,
):
    """All prompts through the real scheduler, request r at step `arrivals[r]`; the output of each.

    `sampling` is for all, or a list with one for each.
    """
    capacity = Capacity(max_num_seqs, max_num_batched_tokens, 512, num_blocks, runner.block_size)
    scheduler = Scheduler(capacity=capacity, limits=Limits.of(capacity))
    waiting = list(enumerate(prompts))
    served = Served({f"r{number}": [] for number in range(len(prompts))})
    while waiting or scheduler.has_work():
        for entry in [entry for entry in waiting if not arrivals or arrivals[entry[0]] <= served.steps]:
            number, prompt = entry
            waiting.remove(entry)
            own = sampling[number] if isinstance(sampling, list) else sampling
            request = Request(f"r{number}", tuple(prompt), max_tokens, 0.0, own or Sampling(temperature=0))
            request.leader = leaders[number] if leaders else ""
            assert scheduler.submit(request, 0.0) is None
        plan = scheduler.schedule(0.0)
        for event in scheduler.commit(plan, runner.run(plan), 0.0):
            if isinstance(event, Tokens):
                served.tokens[event.request_id] += event.token_ids
                served.logprobs[event.request_id] += event.logprobs or ()
            if isinstance(event, PromptLogprobs):
                served.prompt_logprobs[event.request_id] += event.logprobs
            served.preemptions += isinstance(event, Preempted)
            served.cached_tokens += event.cached_tokens if isinstance(event, Scheduled) else 0
        served.steps += 1
    return served


@dataclass
class Oracle:
    """What transformers generates, and by how much each token beat the next best."""

    tokens: list[int]
    margins: list[float]

    @classmethod
    def ask(cls, model, prompt, max_tokens):
        tokens, margins = [], []
        with torch.inference_mode():
            ids, past = torch.tensor([prompt]), None
            for _ in range(max_tokens):
                answer = model(ids, past_key_values=past, use_cache=True)
                best = answer.logits[0, -1].topk(2)
                tokens.append(int(best.indices[0]))
                margins.append(float(best.values[0] - best.values[1]))
                ids, past = best.indices[None, :1], answer.past_key_values
        return cls(tokens, margins)

    def assert_matches(self, tokens):
        """What was compared up to a near tie must be most of it."""
        for at, (ours, theirs) in enumerate(zip(tokens, self.tokens, strict=True)):
            if ours != theirs:
                assert self.margins[at] < NEAR_TIE, f"token {at}: {ours} for {theirs}, by {self.margins[at]}"
                assert at > len(tokens) // 2, f"a near tie at token {at} leaves little to compare"
                return


def tokens_of(length, seed, vocabulary=1024):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, vocabulary, (length,), generator=generator).tolist()
