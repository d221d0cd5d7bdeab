"""What the two sides say to each other, besides reports: commands to the core, notices from it.

Plain data, checked by type where it comes in. Requests and rules are the core's own classes: what is added to
them travels without a word here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from headrace_engine.core.request import FinishReason, Request
from headrace_engine.server.model import ModelFacts
from headrace_engine.server.rules import Rules


@dataclass(frozen=True, slots=True)
class Open:
    """Begin to step. Once, after `Loaded`."""

    rules: Rules
    enable_prefix_caching: bool
    kind: Literal["open"] = "open"


@dataclass(frozen=True, slots=True)
class Submit:
    requests: tuple[Request, ...]
    kind: Literal["submit"] = "submit"


@dataclass(frozen=True, slots=True)
class Abort:
    request_ids: tuple[str, ...]
    reason: FinishReason
    kind: Literal["abort"] = "abort"


@dataclass(frozen=True, slots=True)
class SetRules:
    """Answered by `RulesSet` with the same number."""

    number: int
    rules: Rules
    new_policy: bool
    kind: Literal["set_rules"] = "set_rules"


@dataclass(frozen=True, slots=True)
class CloseAdmission:
    kind: Literal["close_admission"] = "close_admission"


@dataclass(frozen=True, slots=True)
class Stop:
    """End after the step under way, and answer what is left."""

    kind: Literal["stop"] = "stop"


Command = Open | Submit | Abort | SetRules | CloseAdmission | Stop


@dataclass(frozen=True, slots=True)
class Found:
    """Where the model stands on disk; its weights are being loaded."""

    directory: Path
    kind: Literal["found"] = "found"


@dataclass(frozen=True, slots=True)
class Loaded:
    facts: ModelFacts
    kind: Literal["loaded"] = "loaded"


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """`reason` names the fix; None where the core's log alone has it."""

    reason: str | None
    kind: Literal["not_loaded"] = "not_loaded"


@dataclass(frozen=True, slots=True)
class RulesSet:
    number: int
    error: str | None
    kind: Literal["rules_set"] = "rules_set"


@dataclass(frozen=True, slots=True)
class Pulse:
    """Once a second: since when a step is waited for (None without work), and how long one may take."""

    waiting_since_s: float | None
    stalled_after_s: float
    kind: Literal["pulse"] = "pulse"


@dataclass(frozen=True, slots=True)
class Failed:
    """A step could not be computed: the core ends."""

    kind: Literal["failed"] = "failed"


Notice = Found | Loaded | NotLoaded | RulesSet | Pulse | Failed

# A request's own state does not exist before the core has it, and is of types that cannot travel.
_CONFIG = ConfigDict(
    arbitrary_types_allowed=True,
    val_json_bytes="base64",
    ser_json_bytes="base64",
    ser_json_inf_nan="constants",
)
COMMANDS: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="kind")], config=_CONFIG)
NOTICES: TypeAdapter[Notice] = TypeAdapter(Annotated[Notice, Field(discriminator="kind")], config=_CONFIG)
REPORT, NOTICE = b"R", b"N"
"""The first byte of what comes from the core."""
