"""A model as the parts of a server know it: its facts everywhere, its runner where it steps."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headrace_engine.core.limits import Capacity
from headrace_engine.core.plan import Outcome, Plan

if TYPE_CHECKING:
    from headrace_engine.server.prompts import Tokenizer


class Runner(Protocol):
    """Computes a plan. The one thing the step loop asks of a model."""

    def run(self, plan: Plan) -> Outcome: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What a loaded model can hold, and what it is."""

    capacity: Capacity
    vocab_size: int
    eos_token_ids: frozenset[int]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel(ModelFacts):
    """A model whose runner is on the other side of the link."""

    tokenizer: "Tokenizer"

    @classmethod
    def of(cls, facts: ModelFacts, tokenizer: "Tokenizer") -> "ServedModel":
        return cls(tokenizer=tokenizer, **_told(facts))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel(ServedModel):
    """A model that is all here."""

    runner: Runner

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(**_told(self))


def _told(facts: ModelFacts) -> dict[str, Any]:
    return {entry.name: getattr(facts, entry.name) for entry in fields(ModelFacts)}


Load = Callable[[Callable[[Path], None]], tuple[Runner, ModelFacts]]
"""Loads a model; tells where it stands on disk as soon as that is known."""
