"""From what a client wants to requests in the engine, and the answer that grows from them."""

from collections.abc import Sequence

from headrace_engine.core.request import Request
from headrace_engine.server.bounds import Wanted, engine_requests
from headrace_engine.server.choice import Beginning, Choice
from headrace_engine.server.errors import invalid
from headrace_engine.server.generation import Generation
from headrace_engine.server.output import Output
from headrace_engine.server.prompts import Prompt, Tokenizer
from headrace_engine.server.service import Serving


def submit(serving: Serving, wanted: Wanted, answer_id: str, arrival_s: float) -> Generation:
    """Offers an engine request for each candidate of each prompt; `arrival_s` is when the whole HTTP request
    had come, on the engine's clock.

    Raises:
        ApiError: 400, for what this model cannot do.
    """
    engine, policy = serving.engine, serving.limits.rules.policy
    if wanted.parameters.priority and not policy.has_classes:
        raise invalid(
            "priority", f"priority does nothing under the scheduling policy {policy}. Leave it out."
        )
    requests = engine_requests(engine.model, wanted, serving.seeds, answer_id=answer_id, arrival_s=arrival_s)
    if not policy.has_classes:  # what was named is 0, which asks for nothing
        for request in requests:
            request.priority, request.takes_tenants_priority = wanted.claim.priority, True
    choices = choices_of(wanted, requests, engine.model.tokenizer)
    retry_after_s = min(max(1.0, wanted.claim.queue_deadline_s or 1.0), 60.0)
    return Generation(
        engine, engine.submit(requests), choices, param=wanted.prompt_param, retry_after_s=retry_after_s
    )


def choices_of(wanted: Wanted, requests: Sequence[Request], tokenizer: Tokenizer) -> dict[str, Choice]:
    """The choices that grow from requests, by their ids."""
    beginnings = [_beginning(wanted, prompt, tokenizer) for prompt in wanted.prompts]
    choices: dict[str, Choice] = {}
    for index, request in enumerate(requests):
        beginning = beginnings[index // wanted.parameters.num_candidates]
        output = _output(wanted, tokenizer, offset=len(beginning.echo or ""))
        choices[request.request_id] = Choice(index, beginning, output, leads=not request.leader)
    return choices


def _beginning(wanted: Wanted, prompt: Prompt, tokenizer: Tokenizer) -> Beginning:
    """A text is shown as the client wrote it: what the tokenizer put in front of it is no part of that."""
    parameters, echo = wanted.parameters, prompt.text
    skips = parameters.skip_special_tokens is not False
    decoder = tokenizer.decoder(skip_special_tokens=skips or echo is not None)
    if not parameters.echoes:
        return Beginning(prompt.token_ids, decoder)
    if echo is None:
        echo = tokenizer.decode(prompt.token_ids, skip_special_tokens=skips)
    return Beginning(prompt.token_ids, decoder, echo, tells_echo=parameters.num_logprobs is not None)


def _output(wanted: Wanted, tokenizer: Tokenizer, *, offset: int) -> Output:
    parameters = wanted.parameters
    return Output(
        tokenizer.decoder(skip_special_tokens=parameters.skip_special_tokens is not False),
        stop=parameters.stop_strings,
        includes_stop=bool(parameters.include_stop_str_in_output),
        min_tokens=parameters.min_tokens or 0,
        offset=offset,
    )
