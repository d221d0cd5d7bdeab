"""What the doors share: which phase the engine is in, and what it serves with once the model is loaded."""

from dataclasses import dataclass
from enum import StrEnum

from starlette.datastructures import Headers

from headrace_engine.server.active_limits import ActiveLimits
from headrace_engine.server.api_keys import ApiKeys
from headrace_engine.server.body import Bodies
from headrace_engine.server.claim import Claim
from headrace_engine.server.engine import Engine
from headrace_engine.server.errors import ApiError, invalid, unavailable
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.json_shape import BodyBounds
from headrace_engine.server.prompts import Prompts
from headrace_engine.server.seeds import Seeds
from headrace_engine.telemetry.metrics import Metrics
from headrace_engine.telemetry.records import Records

LOADING_RETRY_S = 5.0


class Phase(StrEnum):
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Serving:
    """Everything that exists once the model is loaded."""

    engine: Engine
    prompts: Prompts
    seeds: Seeds
    metrics: Metrics
    records: Records
    limits: ActiveLimits
    body_bounds: BodyBounds
    fingerprint: str
    queue_deadline_s: float | None
    first_token_s: float | None
    """The declared TTFT, which the order of admission may go by."""
    api_keys: ApiKeys | None
    """Without them everybody is one tenant."""
    started_unix_s: int

    async def claim(self, headers: Headers, address: str) -> Claim:
        """Who asks, and by when. Raises `ApiError`."""
        tenant, salt = "", b""
        if self.api_keys is not None:
            if self.api_keys.refresh():
                await self.limits.adopt(self.api_keys.tenancy.contract)
            tenant = self.api_keys.tenant(headers.get("authorization", ""), address)
            salt = self.api_keys.salt(tenant)
        terms = self.limits.rules.contract.of(tenant)
        return Claim.of(
            headers,
            tenant=tenant,
            block_salt=salt,
            queue_deadline_s=_own_s(terms.queue_deadline_ms, self.queue_deadline_s),
            first_token_s=_own_s(terms.ttft_ms, self.first_token_s),
            priority=terms.priority,
        )


def _own_s(own_ms: int | None, everybodys_s: float | None) -> float | None:
    return everybodys_s if own_ms is None else own_ms / 1000


class Service:
    """Lives on the event loop; every probe is answered from its fields."""

    def __init__(self, model_names: tuple[str, ...], http_limits: HttpLimits) -> None:
        self.model_names = model_names
        self.http_limits = http_limits
        self.bodies = Bodies(http_limits.max_bodies_bytes, http_limits.body_timeout_s)
        self.phase = Phase.LOADING
        self.readiness_watched = False
        """Whether anybody has ever asked if this engine is ready."""
        self._serving: Serving | None = None

    def open(self, serving: Serving) -> None:
        """The model is loaded."""
        self._serving = serving
        self.phase = Phase.READY

    def leave(self) -> None:
        """Draining begins: not ready from now on, whatever else happens."""
        self.serving().metrics.draining.set(1)
        self.phase = Phase.DRAINING

    def fail(self) -> None:
        self.phase = Phase.FAILED

    @property
    def is_ready(self) -> bool:
        return self.phase is Phase.READY

    @property
    def is_leaving(self) -> bool:
        return self.phase in (Phase.DRAINING, Phase.FAILED)

    @property
    def is_live(self) -> bool:
        """False for a loop that is stuck or has failed, and for a tokenizer that is: only a restart helps."""
        if self.phase is Phase.FAILED:
            return False
        serving = self._serving
        return serving is None or not (serving.engine.stalled or serving.prompts.is_stuck)

    def check_model(self, name: str | None) -> None:
        """Raises `ApiError` for a model that is not served here; none named is the one that is."""
        if name is not None and name not in self.model_names:
            known = ", ".join(self.model_names)
            message = f"The model {name[:64]!r} does not exist here. This server has {known}."
            raise invalid("model", message, code="model_not_found", status=404)

    def serving(self) -> Serving:
        """Raises `ApiError` (503) while there is nothing to serve with."""
        if self.phase is Phase.FAILED:
            raise restarting()
        if self._serving is None:
            raise unavailable("loading", "The model is being loaded.", LOADING_RETRY_S)
        return self._serving


def restarting() -> ApiError:
    """What a request is told while the engine's process ends."""
    return unavailable("restarting", "The engine failed and is restarting.", LOADING_RETRY_S)
