"""How a model's configuration describes its rotary positions, in both spellings: `rope_parameters`
(transformers 5) and `rope_theta` with `rope_scaling` (before).
"""

from dataclasses import dataclass

from headrace_engine.runner.config_document import ConfigDocument
from headrace_engine.runner.errors import ModelLoadError


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding: base frequency and how it is scaled (`default`, `linear` or `llama3`)."""

    theta: float
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 0


def read_rope(
    document: ConfigDocument, *, kind_of_layer: str | None = None, default_theta: float = 1e4
) -> Rope:
    """The embedding of a model, or of one kind of its layers (`full_attention`, `sliding_attention`).

    The older spelling scales the layers of full attention alone, and knows another base for sliding ones.

    Raises:
        ModelLoadError: a scaling that is not known, or one without its numbers.
    """
    parameters = document.section("rope_parameters")
    if kind_of_layer is not None:
        parameters = parameters.section(kind_of_layer)
    if kind_of_layer == "sliding_attention":
        theta = document.number("rope_local_base_freq", default=default_theta)
    else:
        theta = document.number("rope_theta", default=default_theta)
        parameters = parameters or document.section("rope_scaling")
    return _parse(parameters, parameters.number("rope_theta", default=theta))


def _parse(parameters: ConfigDocument, theta: float) -> Rope:
    kind = parameters.text("rope_type", default=parameters.text("type", default="default"))
    match kind:
        case "default":
            return Rope(theta)
        case "linear":
            return Rope(theta, "linear", parameters.number("factor"))
        case "llama3":
            return Rope(
                theta,
                "llama3",
                parameters.number("factor"),
                parameters.number("low_freq_factor"),
                parameters.number("high_freq_factor"),
                parameters.integer("original_max_position_embeddings", high=1 << 26),
            )
        case _:
            raise ModelLoadError(
                f"config.json: rope type {kind!r:.40} is not supported; default, linear and llama3 are"
            )
