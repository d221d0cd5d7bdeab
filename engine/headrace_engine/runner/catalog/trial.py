"""A short greedy answer of a model, by hand-made plans: what tells that its files make sense together."""

from pathlib import Path

from headrace_engine.core.plan import Plan, Row
from headrace_engine.core.sampling import Sampling
from headrace_engine.runner.model_runner import ModelRunner
from headrace_engine.runner.tokenizer import Tokenizer

_BLOCK_SIZE = 64
_LENGTH = 256


def greedy_answer(directory: Path, question: str, max_tokens: int) -> str:
    """What the model says to one chat message, up to its end-of-sequence token or `max_tokens`."""
    tokenizer = Tokenizer.load(directory)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}])
    runner = ModelRunner.load(
        directory,
        dtype="float32",
        max_model_len=_LENGTH,
        block_size=_BLOCK_SIZE,
        num_blocks=_LENGTH // _BLOCK_SIZE,
    )
    return tokenizer.decode(greedy_tokens(runner, prompt, max_tokens))


def greedy_tokens(runner: ModelRunner, prompt: list[int], max_tokens: int) -> list[int]:
    """The greedy continuation of one prompt, alone; ends before the end-of-sequence token."""
    table = range(-(-(len(prompt) + max_tokens) // runner.block_size))
    output: list[int] = []
    pending, start = prompt, 0
    while len(output) < max_tokens:
        row = Row("trial", start, pending, table, 1, Sampling(temperature=0))
        (token,) = runner.run(Plan(len(output), (row,))).sampled["trial"]
        if token in runner.eos_token_ids:
            break
        output.append(token)
        start, pending = start + len(pending), [token]
    return output
