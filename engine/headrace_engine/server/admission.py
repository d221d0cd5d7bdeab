"""From checked parameters to engine requests: the bounds that depend on the model, and the defaults."""

from headrace_engine.core.request import Request
from headrace_engine.core.sampling import Sampling
from headrace_engine.server.claim import ANYBODY, Claim
from headrace_engine.server.errors import invalid, too_long
from headrace_engine.server.generation import Generation
from headrace_engine.server.model import ServedModel
from headrace_engine.server.output import Output
from headrace_engine.server.parameters import ChatParameters, GenerationParameters
from headrace_engine.server.service import Serving

DEFAULT_COMPLETION_TOKENS = 16
"""OpenAI's default of `max_tokens` for completions; a chat may fill the context."""


def submit(
    serving: Serving,
    parameters: GenerationParameters,
    prompts: list[tuple[int, ...]],
    answer_id: str,
    arrival_s: float,
    *,
    claim: Claim,
) -> Generation:
    """Offers one engine request a prompt; `arrival_s` is when the whole HTTP request had come, on the
    engine's clock.

    Raises:
        ApiError: 400, for what this model cannot do.
    """
    engine, capacity = serving.engine, serving.engine.model.capacity
    param = "messages" if isinstance(parameters, ChatParameters) else "prompt"
    if len(prompts) > capacity.max_num_seqs:
        raise invalid(param, f"This server runs at most {capacity.max_num_seqs} prompts at once.")
    policy = serving.limits.rules.policy
    if parameters.priority and not policy.has_classes:
        raise invalid(
            "priority", f"priority does nothing under the scheduling policy {policy}. Leave it out."
        )
    serving.prompts.check_ids("stop_token_ids", parameters.stop_token_ids or ())
    requests = [
        engine_request(
            *(engine.model, parameters, prompt, f"{answer_id}-{index}", arrival_s),
            claim=claim,
        )
        for index, prompt in enumerate(prompts)
    ]
    outputs = {
        request.request_id: Output(
            engine.model.tokenizer.decoder(),
            num_prompt_tokens=len(request.prompt_token_ids),
            stop=parameters.stop_strings,
            min_tokens=request.min_tokens,
        )
        for request in requests
    }
    retry_after_s = min(max(1.0, claim.queue_deadline_s or 1.0), 60.0)
    return Generation(engine, engine.submit(requests), outputs, param=param, retry_after_s=retry_after_s)


def engine_request(
    model: ServedModel,
    parameters: GenerationParameters,
    prompt: tuple[int, ...],
    request_id: str,
    arrival_s: float,
    *,
    claim: Claim = ANYBODY,
) -> Request:
    """What the engine is asked, for one prompt of checked parameters.

    Raises:
        ApiError: 400, for what this model cannot do.
    """
    return Request(
        request_id=request_id,
        prompt_token_ids=prompt,
        max_tokens=_max_tokens(parameters, len(prompt), model.capacity.max_model_len),
        arrival_s=arrival_s,
        sampling=_sampling(parameters),
        stop_token_ids=_stop_ids(parameters, model.eos_token_ids),
        min_tokens=parameters.min_tokens or 0,
        priority=parameters.priority or 0,
        tenant=claim.tenant,
        block_salt=claim.block_salt,
        queue_deadline_s=_after(arrival_s, claim.queue_deadline_s),
        first_token_deadline_s=_after(arrival_s, claim.first_token_s),
    )


def _after(arrival_s: float, wait_s: float | None) -> float | None:
    return None if wait_s is None else arrival_s + wait_s


def _max_tokens(parameters: GenerationParameters, num_prompt_tokens: int, max_model_len: int) -> int:
    name, asked = "max_tokens", parameters.max_tokens
    if isinstance(parameters, ChatParameters) and parameters.max_completion_tokens is not None:
        name, asked = "max_completion_tokens", parameters.max_completion_tokens
    left = max_model_len - num_prompt_tokens
    if asked is not None and asked > left:
        raise too_long(
            name,
            f"This model's maximum context length is {max_model_len} tokens. The prompt has "
            f"{num_prompt_tokens} and {name} is {asked}: at most {left} are left.",
        )
    default = left if isinstance(parameters, ChatParameters) else min(left, DEFAULT_COMPLETION_TOKENS)
    most = default if asked is None else asked
    if parameters.min_tokens is not None and parameters.min_tokens > most:
        raise invalid(
            "min_tokens", f"min_tokens is {parameters.min_tokens} and at most {most} will be generated."
        )
    return most


def _sampling(parameters: GenerationParameters) -> Sampling:
    return Sampling(
        temperature=1.0 if parameters.temperature is None else parameters.temperature,
        top_p=1.0 if parameters.top_p is None else parameters.top_p,
        top_k=max(0, parameters.top_k or 0),
        seed=0 if parameters.seed is None else parameters.seed,
    )


def _stop_ids(parameters: GenerationParameters, eos_token_ids: frozenset[int]) -> frozenset[int]:
    own = frozenset(parameters.stop_token_ids or ())
    return own if parameters.ignore_eos else own | eos_token_ids
