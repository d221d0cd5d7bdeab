"""The part of a plan that goes to engines: limits to set, pods to drain.

An engine that does not take a call stops nothing: what it did not take, the next plan holds again.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from headrace_operator.api.names import ADMIN_PORT
from headrace_operator.api.spec import Limits
from headrace_operator.decide.plan import Drain, SetLimits
from headrace_operator.kube.leadership import Leadership
from headrace_operator.observe.admin import AdminClient, AdminError, AdminTarget

logger = logging.getLogger(__name__)


class EngineCalls:
    """`admin` is None where the operator has no signing key: no call is taken then."""

    def __init__(self, *, admin: AdminClient | None, leadership: Leadership) -> None:
        self._admin = admin
        self._leadership = leadership

    async def set_limits(self, changes: Iterable[SetLimits]) -> dict[str, Limits]:
        """The limits that were taken, by pod uid."""
        taken: dict[str, Limits] = {}
        for change in changes:
            target = AdminTarget(change.pod_uid, change.pod_ip, ADMIN_PORT)
            limits = {
                "max_num_seqs": change.limits.max_num_seqs,
                "max_num_batched_tokens": change.limits.max_num_batched_tokens,
            }
            if self._admin is None:
                continue
            if await self._taken(change.pod_name, partial(self._admin.set_limits, target, limits)):
                taken[change.pod_uid] = change.limits
        return taken

    async def drain(self, drains: Iterable[Drain]) -> int:
        """How many pods took it."""
        taken = 0
        for drain in drains:
            target = AdminTarget(drain.pod_uid, drain.pod_ip, ADMIN_PORT)
            if self._admin is not None:
                call = partial(self._admin.drain, target, timeout_s=drain.timeout_s)
                taken += await self._taken(drain.pod_name, call)
        return taken

    async def _taken(self, pod_name: str, call: Callable[[], Awaitable[Any]]) -> bool:
        try:
            async with self._leadership.writing():
                await call()
        except AdminError as error:
            logger.warning("engine call not taken: %s", error, extra={"pod": pod_name})
            return False
        return True
