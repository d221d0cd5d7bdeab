"""Which layers of a model see a sliding window only."""

from headrace_engine.runner.config import ModelConfig

SLIDING, FULL = "sliding_attention", "full_attention"


def layer_windows(config: ModelConfig) -> list[int | None]:
    """The window of each layer as Qwen's configurations give it: where `use_sliding_window` says so, the
    layers that `layer_types` lists, else those from `max_window_layers` on.
    """
    document, count = config.document, config.num_hidden_layers
    if not document.flag("use_sliding_window") or not document.has("sliding_window"):
        return [None] * count
    window = document.integer("sliding_window", high=1 << 26)
    first = document.integer("max_window_layers", high=1 << 10, default=28)
    default = [SLIDING if index >= first else FULL for index in range(count)]
    kinds = document.per_layer("layer_types", count, (SLIDING, FULL), default)
    return [window if kind == SLIDING else None for kind in kinds]


def layer_kinds(config: ModelConfig, every: int) -> list[str]:
    """The kind of each layer as Gemma's configurations give it: listed in `layer_types`, else one in `every`
    sees all.
    """
    count = config.num_hidden_layers
    default = [SLIDING if (index + 1) % every else FULL for index in range(count)]
    return config.document.per_layer("layer_types", count, (SLIDING, FULL), default)
