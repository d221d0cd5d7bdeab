"""When a sequence is complete: at a stop id, or at its length."""

from collections.abc import Sequence

from headrace_engine.core.request import FinishReason, Request


def accept(request: Request, sampled: Sequence[int]) -> tuple[Sequence[int], FinishReason | None]:
    """The leading part of `sampled` that belongs to the request, and why it ends there, if it does.

    Tokens are looked at one by one: a stop id first (unless fewer than `min_tokens` were generated), then the
    length.
    """
    before = len(request.output_token_ids)
    left = request.token_limit - len(request.prompt_token_ids) - before
    if len(sampled) < left and request.stop_token_ids.isdisjoint(sampled):
        return sampled, None
    for count, token_id in enumerate(sampled, start=1):
        if token_id in request.stop_token_ids and before + count >= request.min_tokens:
            return sampled[:count], FinishReason.STOP
        if count >= left:
            return sampled[:count], FinishReason.LENGTH
    return sampled, None
