"""Who gives way when no block is left: the running request that loses the least work.

Preemption is by recompute: the victim's blocks are released and it waits, before newcomers, to compute its
tokens again (its published blocks may still be found then). A request preempted `MAX_PREEMPTIONS` times is
pinned: it comes back only when blocks for its whole length are there, holds them all, and is never chosen
again. So preemptions per request are bounded, and with them the work done twice.
"""

from collections.abc import Iterable

from headrace_engine.core.request import Request

MAX_PREEMPTIONS = 2


def is_pinned(request: Request) -> bool:
    """Whether a request was preempted as often as any may be."""
    return request.preemptions >= MAX_PREEMPTIONS


def victim(running: Iterable[Request]) -> Request:
    """Which of `running` to preempt: the one that loses the least work, the last of equals.

    At least one of them must not be pinned; the one that asks for a block never is.
    """
    candidates = [request for request in running if not is_pinned(request)]
    return min(reversed(candidates), key=lambda request: request.computed_tokens)
