"""What the engines of one service recorded lately, in slots of time. Pure.

Sums of slots, not records, are kept: memory is bounded by the window and not by the load, nor by what a pod
says. A record counts where it ended, not where it was read; one that ended before the window counts nowhere.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace_operator.decide.observation import Mix, StepWork
from headrace_operator.observe.feed_page import Page
from headrace_operator.observe.tally import Tally

SLOT_S = 20.0


@dataclass(slots=True)
class Slot:
    newest_request_s: float = 0.0
    newest_step_s: float = 0.0
    prompt_tokens: Tally = field(default_factory=Tally)
    cached_tokens: Tally = field(default_factory=Tally)
    output_tokens: Tally = field(default_factory=Tally)
    step_s: Tally = field(default_factory=Tally)
    step_tokens: Tally = field(default_factory=Tally)


@dataclass(slots=True)
class Records:
    """Times are Unix seconds by the operator's clock."""

    _slots: dict[int, Slot] = field(default_factory=dict)

    def add(self, page: Page, *, at_s: float, retention_s: float) -> None:
        """Take in a page that was read at `at_s`, and forget what is older than `retention_s`."""
        for request in page.requests:
            if request.age_s <= retention_s:
                slot = self._slot(at_s - request.age_s)
                slot.newest_request_s = max(slot.newest_request_s, at_s - request.age_s)
                slot.prompt_tokens.add(request.prompt_tokens)
                slot.cached_tokens.add(request.cached_tokens)
                slot.output_tokens.add(request.output_tokens)
        for step in page.steps:
            if step.age_s <= retention_s:
                slot = self._slot(at_s - step.age_s)
                slot.newest_step_s = max(slot.newest_step_s, at_s - step.age_s)
                slot.step_s.add(step.duration_s)
                slot.step_tokens.add(step.tokens)
        first = math.floor((at_s - retention_s) / SLOT_S)
        self._slots = {number: slot for number, slot in self._slots.items() if number >= first}

    def clear(self) -> None:
        self._slots.clear()

    def mix(self, *, start_s: float, now_s: float) -> Mix | None:
        """Of the requests that ended from `start_s` on, to a slot; None where none did."""
        slots = [slot for slot in self._between(start_s, now_s) if slot.prompt_tokens.total]
        if not slots:
            return None
        prompts = _together(slots, lambda slot: slot.prompt_tokens)
        outputs = _together(slots, lambda slot: slot.output_tokens)
        cached = _together(slots, lambda slot: slot.cached_tokens)
        return Mix(
            newest_s=max(slot.newest_request_s for slot in slots),
            requests=prompts.total,
            prompt_tokens_p50=prompts.quantile(0.5),
            prompt_tokens_p95=prompts.quantile(0.95),
            output_tokens_p50=outputs.quantile(0.5),
            output_tokens_p95=outputs.quantile(0.95),
            cached_ratio=cached.sum / prompts.sum if prompts.sum else None,
        )

    def step_work(self, *, start_s: float, now_s: float) -> StepWork | None:
        """The same, of steps."""
        slots = [slot for slot in self._between(start_s, now_s) if slot.step_s.total]
        if not slots:
            return None
        durations = _together(slots, lambda slot: slot.step_s)
        return StepWork(
            newest_s=max(slot.newest_step_s for slot in slots),
            steps=durations.total,
            duration_p50_s=durations.quantile(0.5),
            duration_p95_s=durations.quantile(0.95),
            tokens_p95=_together(slots, lambda slot: slot.step_tokens).quantile(0.95),
        )

    def _slot(self, ended_s: float) -> Slot:
        return self._slots.setdefault(math.floor(ended_s / SLOT_S), Slot())

    def _between(self, start_s: float, now_s: float) -> list[Slot]:
        first, last = math.floor(start_s / SLOT_S), math.floor(now_s / SLOT_S)
        return [slot for number, slot in self._slots.items() if first <= number <= last]


def _together(slots: Iterable[Slot], of: Callable[[Slot], Tally]) -> Tally:
    return Tally.of(of(slot) for slot in slots)
