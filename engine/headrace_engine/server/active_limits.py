"""The active limits as the admin port shows and changes them: a document with a revision.

The revision makes a change conditional (`If-Match`), so that two writers cannot undo each other unseen. A
change is all or nothing, and holds from the next step.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from headrace_engine.core.contract import Contract
from headrace_engine.core.limits import LimitsError
from headrace_engine.server.engine import Engine
from headrace_engine.server.errors import invalid
from headrace_engine.server.rules import Rules
from headrace_engine.telemetry.recorder import Recorder

audit = logging.getLogger("headrace.audit")


class StaleRevision(Exception):  # noqa: N818 - an answer, not a fault
    """The limits have changed since the caller read them."""


class ActiveLimits:
    def __init__(self, engine: Engine, rules: Rules, recorder: Recorder, now: Callable[[], datetime]) -> None:
        self._engine = engine
        self.rules = rules
        self._recorder = recorder
        self._now = now
        self._since = now()
        self._changing = asyncio.Lock()
        self.revision = 1
        recorder.record_rules(rules.limits, rules.policy, self.revision)
        recorder.record_terms(rules.contract)

    @property
    def etag(self) -> str:
        return f'"{self.revision}"'

    def document(self) -> dict[str, Any]:
        """What is active, what the engine could hold, and whether it has drained down to the limits yet."""
        running = self._engine.num_running
        return {
            "revision": self.revision,
            **self.rules.document(),
            "capacity": asdict(self._engine.model.capacity),
            "effective": {"num_running": running, "converged": running <= self.rules.limits.max_num_seqs},
            "since": self._since.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }

    async def change(self, changes: dict[str, Any], if_match: str) -> None:
        """Applies `changes` if `if_match` is the current revision.

        Raises:
            StaleRevision: it is not.
            ApiError: 400 with the limit at fault as `param`; nothing was changed.
        """
        async with self._changing:
            if if_match.strip() not in (self.etag, "*"):
                raise StaleRevision
            try:
                rules = self.rules.changed(changes, self._engine.model.capacity)
            except LimitsError as error:
                raise invalid(error.name[:64], str(error)[:300]) from None
            await self._apply(rules)

    async def adopt(self, contract: Contract) -> None:
        """Takes over the terms of tenants that were changed elsewhere."""
        async with self._changing:
            await self._apply(replace(self.rules, contract=contract))

    async def _apply(self, rules: Rules) -> None:
        before = self.rules
        if rules == before:
            return
        await self._engine.set_rules(rules, new_policy=rules.policy is not before.policy)
        self.rules, self._since = rules, self._now()
        self.revision += 1
        self._recorder.record_rules(rules.limits, rules.policy, self.revision)
        self._recorder.record_terms(rules.contract)
        audit.info("limits effective", extra=self.document())
