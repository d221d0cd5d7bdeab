"""An answer that is not streamed: its choices as they grow, and its body once they have ended."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from headrace_engine.core.request import FinishReason
from headrace_engine.server.choice import Choice, usage_of
from headrace_engine.server.output import Delta
from headrace_engine.server.spelling import Logprobs, prompt_logprobs
from headrace_engine.server.wire import Answer, usage_document
from headrace_engine.server.wishes import Wishes


@dataclass(slots=True)
class _Gathered:
    """What came of one choice."""

    choice: Choice
    logprobs: Logprobs
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    reason: FinishReason | None = None

    @property
    def mean_logprob(self) -> float:
        output = self.choice.output
        return output.cumulative_logprob / max(1, output.num_tokens)


class Whole:
    """Gathers the deltas of all candidates; the body shows the `num_choices` best of each prompt's."""

    def __init__(self, answer: Answer, choices: Sequence[Choice], wishes: Wishes, num_choices: int) -> None:
        self._answer = answer
        self._wishes = wishes
        self._num_choices = num_choices
        self._gathered = [_Gathered(choice, wishes.new_logprobs()) for choice in choices]

    @property
    def num_told(self) -> int:
        """Tokens that the body tells of."""
        choices = [gathered.choice for gathered in self._gathered]
        of_prompts = 0 if self._wishes.prompt_logprobs is None else usage_of(choices).prompt_tokens
        echoed = sum(choice.beginning.num_told for choice in choices)
        scored = sum(choice.output.num_tokens for choice in choices if choice.output.is_scored)
        return of_prompts + echoed + scored

    def add(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            gathered = self._gathered[delta.index]
            gathered.text += delta.text
            gathered.token_ids += delta.token_ids
            gathered.logprobs.add(delta.told())
            gathered.reason = delta.finish_reason or gathered.reason

    def body(self) -> bytes:
        """The answer, once every choice has ended."""
        usage = usage_of([gathered.choice for gathered in self._gathered])
        choices = [self._choice(index, gathered) for index, gathered in enumerate(self._shown())]
        about = self._about_prompt(self._gathered[0]) if self._answer.is_chat else {}
        head = self._answer.head(chunk=False)
        return orjson.dumps({**head, "choices": choices, **about, "usage": usage_document(usage)})

    def _shown(self) -> list[_Gathered]:
        by_prompt: list[list[_Gathered]] = []
        for gathered in self._gathered:
            if gathered.choice.leads:
                by_prompt.append([])
            by_prompt[-1].append(gathered)
        if len(self._gathered) > self._num_choices * len(by_prompt):
            for candidates in by_prompt:
                candidates.sort(key=lambda gathered: -gathered.mean_logprob)
        return [gathered for candidates in by_prompt for gathered in candidates[: self._num_choices]]

    def _choice(self, index: int, gathered: _Gathered) -> dict[str, Any]:
        message = {"role": "assistant", "content": gathered.text, "refusal": None}
        body = {"message": message} if self._answer.is_chat else {"text": gathered.text}
        assert gathered.reason is not None
        ids = {"token_ids": gathered.token_ids} if self._wishes.token_ids else {}
        return {
            "index": index,
            **body,
            "logprobs": orjson.Fragment(gathered.logprobs.take()),
            "finish_reason": gathered.reason.value,
            **ids,
            **({} if self._answer.is_chat else self._about_prompt(gathered)),
        }

    def _about_prompt(self, gathered: _Gathered) -> dict[str, Any]:
        """A chat has one prompt, so it stands beside the choices; each choice of a completion has its own."""
        wishes, beginning = self._wishes, gathered.choice.beginning
        about: dict[str, Any] = {}
        if wishes.token_ids:
            about["prompt_token_ids"] = beginning.token_ids
        if wishes.prompt_logprobs is not None:
            told = prompt_logprobs(
                wishes.spelling, beginning.token_ids, beginning.scores, wishes.prompt_logprobs
            )
            about["prompt_logprobs"] = orjson.Fragment(told)
        return about
