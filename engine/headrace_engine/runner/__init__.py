"""The torch side of the engine: weights, tokens, attention, sampling.

`ModelRunner` computes the plans of `headrace_engine.core`; `Tokenizer` turns text into tokens and back.
Neither knows HTTP, queues or time limits. The tokenizer imports no torch.
"""

import os

# OpenMP's threads spin while they wait for each other. Where a core is shared (other pods, a CPU limit) the
# thread that computes waits for one that spins, and a step takes 20 times as long. Read when torch loads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
