"""What decoders are built of: norms, attention, gated MLPs, layers, and the decoder itself.

No family is named here; `headrace_engine.runner.models` puts these together.
"""
