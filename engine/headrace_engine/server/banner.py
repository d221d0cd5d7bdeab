"""What the engine says of itself when it is ready."""

from typing import Any

from headrace_engine.server.config import ServeConfig
from headrace_engine.server.service import Serving


def facts(config: ServeConfig, serving: Serving, addresses: dict[str, str]) -> dict[str, Any]:
    """Model, number type, KV budget, limits, addresses, and who is let in."""
    model = serving.engine.model
    capacity = model.capacity
    return {
        "model": config.model,
        "served_as": ", ".join(config.names),
        "dtype": model.dtype,
        "kv_cache_tokens": capacity.num_blocks * capacity.block_size,
        "kv_cache_blocks": f"{capacity.num_blocks} x {capacity.block_size} tokens",
        "max_model_len": capacity.max_model_len,
        "limits": ", ".join(f"{name}={value}" for name, value in serving.limits.document()["limits"].items()),
        "prefix_caching": config.enable_prefix_caching,
        "sessions_at_full_length": round(
            capacity.num_blocks * capacity.block_size / capacity.max_model_len, 1
        ),
        "api_keys": "asked for" if _asks_for_keys(serving) else "none asked for: who reaches it is served",
        "traces": config.otlp_traces_endpoint or "not exported",
        **addresses,
    }


def _asks_for_keys(serving: Serving) -> bool:
    return serving.api_keys is not None and serving.api_keys.tenancy.tenants is not None
