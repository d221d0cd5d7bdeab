"""A model in this process: prompts in, outputs back, all prompts of a call batched as the server would.

The step loop and the scheduler are the server's own; a call submits its prompts together and reads the loop's
reports until the last has ended. One call at a time: it raises in a second thread rather than mix answers.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any, Self

from headrace_engine.core.limits import Limits
from headrace_engine.core.plan import Finished
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.offline.answer import Answer, RequestOutput, of_prompt
from headrace_engine.offline.sampling_params import SamplingParams
from headrace_engine.runner.chat_template import ChatTemplateError
from headrace_engine.server.admission import choices_of
from headrace_engine.server.bad_words import bad_word_ids
from headrace_engine.server.bounds import Wanted, engine_requests
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.errors import ApiError
from headrace_engine.server.loading import load_model
from headrace_engine.server.loop import StepLoop
from headrace_engine.server.model import LoadedModel
from headrace_engine.server.parameters import (
    GenerationParameters,
    chat_parameters,
    completion_parameters,
)
from headrace_engine.server.prompts import Prompt as EncodedPrompt
from headrace_engine.server.prompts import Prompts
from headrace_engine.server.seeds import Seeds
from headrace_engine.server.spelling import Spelling
from headrace_engine.telemetry.report import StepReport

Prompt = str | Sequence[int]
Message = Mapping[str, Any]
_UNBOUNDED = 2**31 - 1


class RequestRefused(ValueError):  # noqa: N818 - what it is, in the API's word
    """A prompt or a parameter that the model cannot take; nothing of the call was kept. `param` names it."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class EngineFailed(RuntimeError):  # noqa: N818 - as above
    """A step could not be computed; this `LLM` is of no more use. The log has the reason."""


class LLM:
    """Loads a model when it is made. Close it, or use it in a `with` statement."""

    def __init__(
        self, model: str | LoadedModel, *, enable_prefix_caching: bool = True, **options: Any
    ) -> None:
        """`model` is a directory, a name in the models directory, or a model that is loaded already;
        `options` are the fields of `ServeConfig` that loading heeds: `dtype`, `threads`, `max_model_len`,
        `max_num_seqs` and so on.

        Raises:
            ModelLoadError: it cannot be loaded; the message names the fix.
        """
        loaded = load_model(ServeConfig(model=model, **options)) if isinstance(model, str) else model
        capacity = loaded.capacity
        limits = Limits(
            capacity.max_num_seqs,
            capacity.max_num_batched_tokens,
            max_num_queued_reqs=_UNBOUNDED,
            max_num_queued_tokens=_UNBOUNDED,
        )
        self._model = loaded
        self._prompts = Prompts(
            loaded.tokenizer, max_model_len=capacity.max_model_len, vocab_size=loaded.vocab_size
        )
        self._reports: SimpleQueue[StepReport] = SimpleQueue()
        self._seeds = Seeds(options.get("seed"))
        self._names = (f"offline-{number}" for number in count())
        self._busy = threading.Lock()
        self._loop = StepLoop(
            Scheduler(capacity=capacity, limits=limits, enable_prefix_caching=enable_prefix_caching),
            loaded.runner,
            deliver=self._reports.put,
            on_failure=lambda: None,
        )
        self._loop.start()

    def close(self) -> None:
        """Ends the step loop. Closing twice is no error."""
        self._loop.stop()
        self._prompts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> list[RequestOutput]:
        """Continues each prompt, a text or token ids; answers in the order of the prompts.

        One `SamplingParams` is for all, a list has one for each prompt.

        Raises:
            RequestRefused: a prompt or a parameter cannot be taken.
            EngineFailed: a step could not be computed.
        """
        many = [prompts] if _is_one_prompt(prompts) else list(prompts)
        return self._whole(
            [self._completion(*pair) for pair in zip(many, _each(sampling_params, len(many)), strict=True)]
        )

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        **template: Any,
    ) -> list[RequestOutput]:
        """Answers a conversation, or each of several, by the model's chat template. Raises as `generate`.

        `template` is what the template is told: `add_generation_prompt`, `continue_final_message`,
        `chat_template_kwargs`.
        """
        many = [messages] if messages and isinstance(messages[0], Mapping) else list(messages)
        pairs = zip(many, _each(sampling_params, len(many)), strict=True)
        return self._whole([self._chat(*pair, **template) for pair in pairs])

    def stream(
        self, prompt: Prompt | Sequence[Message], sampling_params: SamplingParams | None = None
    ) -> Iterator[str]:
        """The answer to one prompt or conversation, piece by piece as it comes. Raises as `generate`."""
        params = sampling_params or SamplingParams()
        is_chat = not isinstance(prompt, str) and bool(prompt) and isinstance(prompt[0], Mapping)
        asked = self._chat(prompt, params) if is_chat else self._completion(prompt, params)
        if len(asked.answers) > 1:
            raise RequestRefused("a stream has one output: leave n out", "n")
        return (text for _, text in self._run([asked]) if text)

    def _whole(self, asked: list["_Asked"]) -> list[RequestOutput]:
        for _ in self._run(asked):
            pass
        return [each.result() for each in asked]

    def _completion(self, prompt: Any, params: SamplingParams) -> "_Asked":
        body = {"model": "-", "prompt": prompt if isinstance(prompt, str) else list(prompt), **params.body()}
        with _refusals():
            parameters = completion_parameters(body)
            is_text = isinstance(prompt, str)
            ids = self._model.tokenizer.encode(prompt) if is_text else list(prompt)
            kept = self._prompts.kept(
                "prompt", EncodedPrompt(tuple(ids), prompt if is_text else None), parameters
            )
            return self._asked(parameters, kept, prompt if is_text else None)

    def _chat(self, messages: Any, params: SamplingParams, **template: Any) -> "_Asked":
        body = {"model": "-", "messages": list(messages), **params.chat_body(), **template}
        with _refusals():
            parameters = chat_parameters(body)
            conversation = [{"role": each.role, "content": each.text} for each in parameters.messages]
            ids = self._model.tokenizer.apply_chat_template(conversation, **parameters.template_variables)
            kept = self._prompts.kept("messages", EncodedPrompt(tuple(ids)), parameters)
            return self._asked(parameters, kept, None)

    def _asked(self, parameters: GenerationParameters, prompt: EncodedPrompt, text: str | None) -> "_Asked":
        tokenizer = self._model.tokenizer
        encode = partial(tokenizer.encode, add_special_tokens=False)
        wanted = Wanted(parameters, [prompt], bad_word_ids(encode, parameters.bad_words or ()))
        requests = engine_requests(
            self._model, wanted, self._seeds, answer_id=next(self._names), arrival_s=time.monotonic()
        )
        spelling, choices = Spelling(tokenizer), choices_of(wanted, requests, tokenizer)
        answers = {
            name: Answer(choice, spelling, tells_logprobs=parameters.num_logprobs is not None)
            for name, choice in choices.items()
        }
        return _Asked(text, requests, answers, spelling, wanted.num_prompt_logprobs is not None)

    def _run(self, asked: list["_Asked"]) -> Iterator[tuple[Answer, str]]:
        """Each answer that grows, with its new text, until all have ended. Left early, it ends the others."""
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("this LLM is answering another call; make one call at a time")
        left = {name: answer for each in asked for name, answer in each.answers.items()}
        try:
            self._loop.submit([request for each in asked for request in each.requests])
            while left:
                yield from self._grown(self._reports.get(), left)
        finally:
            self._loop.abort(left)
            self._busy.release()

    def _grown(self, report: StepReport, left: dict[str, Answer]) -> Iterator[tuple[Answer, str]]:
        for request, rejection in report.rejected:
            if request.request_id in left:
                if rejection.reason == "draining":
                    raise EngineFailed("this LLM has failed or was closed; make another")
                raise RequestRefused(rejection.message)
        for event in report.events:
            if (answer := left.get(event.request_id)) is None:
                continue
            if isinstance(event, Finished) and event.reason is FinishReason.ERROR:
                raise EngineFailed(event.message or "a step could not be computed")
            text = answer.grow(event)
            if answer.finish_reason is not None:
                del left[event.request_id]
                if not isinstance(event, Finished):
                    self._loop.abort([event.request_id], answer.finish_reason)
            yield answer, text


@dataclass(frozen=True, slots=True)
class _Asked:
    """One prompt on its way: its requests, and the answers that grow from them."""

    text: str | None
    requests: list[Request]
    answers: dict[str, Answer]
    spelling: Spelling
    tells_prompt: bool

    def result(self) -> RequestOutput:
        """What became of it, once every answer has ended."""
        answers = list(self.answers.values())
        beginning = answers[0].beginning
        return RequestOutput(
            self.text,
            beginning.token_ids,
            tuple(answer.output(index) for index, answer in enumerate(answers)),
            beginning.cached_tokens,
            of_prompt(self.spelling, beginning) if self.tells_prompt else None,
        )


@contextmanager
def _refusals() -> Iterator[None]:
    """Turns the API's refusals into a program's."""
    try:
        yield
    except ApiError as error:
        raise RequestRefused(error.body.message, error.body.param) from None
    except ChatTemplateError as error:
        raise RequestRefused(str(error), "messages") from None


def _is_one_prompt(prompts: Any) -> bool:
    return isinstance(prompts, str) or (bool(prompts) and isinstance(prompts[0], int))


def _each(params: SamplingParams | Sequence[SamplingParams] | None, num_prompts: int) -> list[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * num_prompts
    if len(params) != num_prompts:
        raise ValueError(f"there are {num_prompts} prompts and {len(params)} sampling parameters")
    return list(params)
