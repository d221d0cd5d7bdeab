"""How kopf is run: as a source of watch events that writes nothing and outlives long API outages."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import kopf

from headrace_operator.ingest.storage import NoDiffBase, NoProgress
from headrace_operator.kube.kinds import Kind


@dataclass(frozen=True, slots=True)
class EndlessBackoff:
    """Delays for ever, growing to `ceiling_s`, with jitter; each iteration starts anew."""

    floor_s: float = 1.0
    ceiling_s: float = 30.0

    def __iter__(self) -> Iterator[float]:
        delay_s = self.floor_s
        while True:
            yield delay_s * random.uniform(0.8, 1.2)  # noqa: S311
            delay_s = min(self.ceiling_s, delay_s * 1.5)


def configure(settings: kopf.OperatorSettings, kinds: Sequence[Kind]) -> None:
    """Set every setting that matters; the reasons are those of the comments."""
    settings.posting.enabled = False  # events are ours: aggregated and rate-limited
    settings.scanning.disabled = True  # no LIST of CRDs and namespaces: smaller rights
    settings.peering.standalone = True  # a Lease decides who writes
    settings.persistence.finalizer = "headrace.dev/kopf"  # unused: no handler of ours needs a finalizer
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()

    settings.watching.server_timeout = 300  # bounds every stream
    settings.watching.client_timeout = 310
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = 70  # a bookmark comes each 60 s
    settings.watching.reconnect_backoff = 1.0
    settings.watching.chunk_size = 500
    for kind in kinds:
        if kind.label_selector:
            settings.watching.label_selectors[kind.api_version, kind.plural] = kind.label_selector

    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = EndlessBackoff()

    settings.queueing.worker_limit = None  # a limit below the number of objects starves them
    settings.queueing.error_delays = (1, 2, 5, 10, 30, 60)
    settings.execution.max_workers = 4
    settings.process.ultimate_exiting_timeout = 10  # kopf may hang as it dies: then it kills the process
