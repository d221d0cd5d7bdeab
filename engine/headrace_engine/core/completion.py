"""When a sequence is complete: at a stop id, or at its length."""

from collections.abc import Sequence

from headrace_engine.core.request import FinishReason, Request


def accept(request: Request, sampled: Sequence[int]) -> tuple[Sequence[int], FinishReason | None]:
    """The leading part of `sampled` that belongs to the request, and why it ends there, if it does.

    Tokens are looked at one by one: a stop id first (unless fewer than `min_tokens` were generated), then the
    length.
    """
    before = len(request.output_token_ids)
    most = request.token_limit - len(request.prompt_token_ids)
    for num_outputs, token_id in enumerate(sampled, start=before + 1):
        if token_id in request.stop_token_ids and num_outputs >= request.min_tokens:
            return sampled[: num_outputs - before], FinishReason.STOP
        if num_outputs >= most:
            return sampled[: num_outputs - before], FinishReason.LENGTH
    return sampled, None
