"""The torch side of the engine: weights, tokens, attention, sampling.

`ModelRunner` computes the plans of `headrace_engine.core`; `Tokenizer` turns text into tokens and back.
Neither knows HTTP, queues or time limits. The tokenizer imports no torch.
"""
