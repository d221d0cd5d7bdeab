"""Who gives way: the running request that loses the least work, among those that may be preempted.

Preemption is by recompute: the victim's blocks are released and it waits, before newcomers, to compute its
tokens again (its published blocks may still be found then). A request preempted `MAX_PREEMPTIONS` times is
pinned: it comes back only when blocks for its whole length are there, holds them all, and is never chosen
again. So preemptions per request are bounded, and with them the work done twice.

Blocks are made room for whenever a decode needs one; slots, and blocks for an admission, only change
hands where the policy lets the head of the queue outrank who runs.
"""

from collections.abc import Callable, Iterable

from headrace_engine.core.lifecycle import Lifecycle
from headrace_engine.core.limits import Limits
from headrace_engine.core.request import Request, Status

MAX_PREEMPTIONS = 2


def is_pinned(request: Request) -> bool:
    """Whether a request was preempted as often as any may be."""
    return request.preemptions >= MAX_PREEMPTIONS


Outranks = Callable[[Request, Request], bool]


def make_room(life: Lifecycle, now_s: float) -> list[str]:
    """Give every decode a slot for its pending token, preempting where no block is left. Returns whom."""
    block_size = life.kv.block_size
    preempted: list[str] = []
    decodes = life.running.decodes.values()
    for request in [each for each in decodes if each.computed_tokens >= len(each.block_table) * block_size]:
        while request.status is Status.RUNNING and not life.kv.grow(request):
            loser = victim_for_blocks(life.running, request, life.waiting.outranks)
            life.preempt(loser, now_s)
            preempted.append(loser.request_id)
        life.tenants.charge(request, request.computed_tokens)
    return preempted


def make_way(life: Lifecycle, limits: Limits, now_s: float, *, short_of_blocks: bool) -> list[str]:
    """Preempt for the head of the queue, if it lacks a slot or blocks, those that it outranks: as few as it
    takes, and none if all of them do not suffice. Returns whom.

    While more run than may, after the limit was lowered, one slot more makes no room: they drain first.
    """
    free_slots = limits.max_num_seqs - len(life.running)
    if free_slots < 0 or (free_slots and not short_of_blocks):
        return []
    lacks_slot = not free_slots
    head = life.waiting.foremost(
        now_s, lambda waiting: life.running.admits_key(waiting.step_key, limits.max_step_keys)
    )
    if head is None or life.holds_tenant(head.tenant):
        return []
    preempted: list[str] = []
    while worse := [
        each for each in life.running if not is_pinned(each) and life.waiting.outranks(head, each)
    ]:
        missing = life.kv.missing(head, whole_length=is_pinned(head))
        if not (lacks_slot or missing) or missing > sum(len(each.block_table) for each in worse):
            break
        loser = _loses_least(worse)
        life.preempt(loser, now_s)
        preempted.append(loser.request_id)
        lacks_slot = False
    return preempted


def victim_for_blocks(running: Iterable[Request], needy: Request, outranks: Outranks) -> Request:
    """Who gives way to a running request that needs a block: of a worse class if there is one, else its own.

    It is `needy` itself, which is never pinned, if all others are of a better class, pinned, or lose more.
    """
    candidates = [other for other in running if not is_pinned(other) and not outranks(other, needy)]
    worse = [other for other in candidates if outranks(needy, other)]
    return _loses_least(worse or candidates)


def _loses_least(candidates: list[Request]) -> Request:
    """The last of equals."""
    return min(reversed(candidates), key=lambda request: request.computed_tokens)
