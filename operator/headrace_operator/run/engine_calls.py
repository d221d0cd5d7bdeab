"""The part of a plan that goes to engines: limits to set, pods to drain.

All pods are called at once, so that one that hangs delays no other. An engine that does not take a call stops
nothing: what it did not take, the next plan holds again. So does the end of the lease.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from headrace_operator.api.names import ADMIN_PORT
from headrace_operator.api.spec import Limits
from headrace_operator.decide.plan import Drain, SetLimits
from headrace_operator.kube.leadership import Leadership, NotLeadingError
from headrace_operator.observe.admin import AdminClient, AdminError, AdminTarget, Answer

logger = logging.getLogger(__name__)

Call = Callable[[AdminClient, AdminTarget], Awaitable[Answer]]


class EngineCalls:
    """`admin` is None where the operator has no signing key: no call is taken then."""

    def __init__(self, *, admin: AdminClient | None, leadership: Leadership) -> None:
        self._admin = admin
        self._leadership = leadership

    async def set_limits(self, changes: Sequence[SetLimits]) -> dict[str, Limits]:
        """The limits that were taken, by pod uid."""
        taken = await asyncio.gather(*(self._set_limits(change) for change in changes))
        return {change.pod_uid: change.limits for change, done in zip(changes, taken, strict=True) if done}

    async def drain(self, drains: Sequence[Drain]) -> int:
        """How many pods took it."""
        return sum(await asyncio.gather(*(self._drain(drain) for drain in drains)))

    async def _set_limits(self, change: SetLimits) -> bool:
        limits = {
            "max_num_seqs": change.limits.max_num_seqs,
            "max_num_batched_tokens": change.limits.max_num_batched_tokens,
        }
        return await self._call(
            change,
            lambda admin, target: admin.set_limits(
                target, limits, tenants=change.tenants, policy=change.policy
            ),
        )

    async def _drain(self, drain: Drain) -> bool:
        return await self._call(drain, lambda admin, target: admin.drain(target, timeout_s=drain.timeout_s))

    async def _call(self, about: SetLimits | Drain, call: Call) -> bool:
        if self._admin is None:
            return False
        target = AdminTarget(about.pod_uid, about.pod_ip, ADMIN_PORT)
        try:
            async with self._leadership.writing():
                await call(self._admin, target)
        except (AdminError, NotLeadingError) as error:
            logger.warning("engine call not taken: %s", error, extra={"pod": about.pod_name})
            return False
        return True
