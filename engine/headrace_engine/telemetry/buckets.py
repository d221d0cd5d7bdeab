"""Histogram bounds, in one place, and the reason for each that is ours."""

from collections.abc import Sequence

TTFT_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560),
)
ITL_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
LATENCY_S = (
    *(0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60),
    *(120, 240, 480, 960, 1920, 7680),
)
STEP_TOKENS = (1, 8, *(2**power for power in range(4, 15)))
PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)
OUTPUTS = (1, 2, 5, 10, 20)
"""Until here vLLM's own bounds: its dashboards interpolate between them."""

FINE_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""From a millisecond: a small model's queue and inter-token times are lost in vLLM's buckets."""
BUDGET_RATIO = (0.1, 0.25, 0.5, 0.75, 0.9, 1)


def with_edges(bounds: Sequence[float], *edges: float | None) -> tuple[float, ...]:
    """Bounds with an edge at each declared SLO, so that attainment is read and not interpolated."""
    return tuple(sorted({*bounds, *(edge for edge in edges if edge is not None)}))


def token_counts(max_model_len: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, 50, ... up to the longest sequence."""
    return tuple(
        step for power in range(10) for digit in (1, 2, 5) if (step := digit * 10**power) <= max_model_len
    )
