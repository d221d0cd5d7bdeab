"""The control plane: it makes what an InferenceService declares true, and keeps it so.

`ingest` and `observe` see, `decide` and `render` plan without touching anything, `run` acts through `kube`.
"""
