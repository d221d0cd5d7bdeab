"""Load for an OpenAI-compatible endpoint, and what came of it: arrivals, streams, latencies, goodput.

`workload`, `stream`, `record` and `summary` are pure; `client` and `load` do the I/O; `cli` shows it.
"""
