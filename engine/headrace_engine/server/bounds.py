"""Bounds that depend on the model, and what a request comes to within them: defaults resolved first.

Every generation passes here, over HTTP and from a program, and nothing else makes a request for the engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_engine.core.request import Request
from headrace_engine.core.sampling import Sampling, Steering
from headrace_engine.server.claim import ANYBODY, Claim
from headrace_engine.server.errors import invalid, too_long
from headrace_engine.server.model import ModelFacts
from headrace_engine.server.parameters import ChatParameters, GenerationParameters
from headrace_engine.server.prompts import Prompt
from headrace_engine.server.seeds import Seeds, nth_of

DEFAULT_COMPLETION_TOKENS = 16
"""OpenAI's default of `max_tokens` for completions; a chat may fill the context."""
MAX_SCORES = 131_072
"""Log probabilities that one answer may hold: less than 64 MiB, while it is made. What is streamed is written
as it comes.
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client wants: checked parameters, its prompts, and who it is."""

    parameters: GenerationParameters
    prompts: Sequence[Prompt]
    bad_words: tuple[tuple[int, ...], ...] = ()
    claim: Claim = ANYBODY

    @property
    def prompt_param(self) -> str:
        return "messages" if isinstance(self.parameters, ChatParameters) else "prompt"

    @property
    def num_prompt_logprobs(self) -> int | None:
        """The larger of what is told of the prompt itself and of its echo."""
        own, echoed = self.parameters.prompt_logprobs, self.parameters.num_logprobs
        if not self.parameters.echoes or echoed is None:
            return own
        return echoed if own is None else max(own, echoed)


def engine_requests(
    model: ModelFacts, wanted: Wanted, seeds: Seeds, *, answer_id: str, arrival_s: float
) -> list[Request]:
    """What the engine is asked: for each prompt its candidates, one after another.

    The first of a prompt leads: the others wait until it has computed the prompt.

    Raises:
        ApiError: 400, for what this model cannot do.
    """
    _check_count(model, wanted)
    _check_ids(model, wanted.parameters)
    stop_ids = _stop_ids(wanted.parameters, model.eos_token_ids)
    steering, most_scored = _steering(wanted, stop_ids), _scorable_tokens(wanted)
    requests: list[Request] = []
    for prompt in wanted.prompts:
        max_tokens = _max_tokens(model, wanted, prompt, most_scored)
        leader = ""
        for index in range(wanted.parameters.num_candidates):
            request = Request(
                request_id=f"{answer_id}-{len(requests)}",
                prompt_token_ids=prompt.token_ids,
                max_tokens=max_tokens,
                arrival_s=arrival_s,
                sampling=_sampling(wanted, steering, seeds, index),
                stop_token_ids=stop_ids,
                leader=leader,
                group=answer_id,
            )
            _claim(request, wanted)
            requests.append(request)
            leader = leader or request.request_id
    return requests


def _claim(request: Request, wanted: Wanted) -> None:
    """Who asks, and by when: all in time once the first of them is, and none if none is."""
    parameters, claim, arrival_s = wanted.parameters, wanted.claim, request.arrival_s
    request.min_tokens = parameters.min_tokens or 0
    request.takes_tenants_priority = parameters.priority is None
    request.priority = claim.priority if parameters.priority is None else parameters.priority
    request.tenant = claim.tenant
    request.block_salt = _salt(wanted)
    request.queue_deadline_s = _after(arrival_s, claim.queue_deadline_s)
    request.first_token_deadline_s = _after(arrival_s, claim.first_token_s)


def _check_count(model: ModelFacts, wanted: Wanted) -> None:
    parameters, most = wanted.parameters, model.capacity.max_num_seqs
    total = len(wanted.prompts) * parameters.num_candidates
    if total <= most:
        return
    if len(wanted.prompts) > most:
        raise invalid(wanted.prompt_param, f"This server runs at most {most} prompts at once.")
    name = "n" if parameters.num_candidates == parameters.num_choices else "best_of"
    raise invalid(
        name,
        f"{len(wanted.prompts)} prompts with {name} {parameters.num_candidates} are {total} sequences, "
        f"and this server runs at most {most} at once.",
    )


def _check_ids(model: ModelFacts, parameters: GenerationParameters) -> None:
    fields = {
        "stop_token_ids": parameters.stop_token_ids or (),
        "allowed_token_ids": parameters.allowed_token_ids or (),
        "logit_bias": [int(name) for name in parameters.logit_bias or ()],
    }
    for param, ids in fields.items():
        if ids and max(ids) >= model.vocab_size:
            raise invalid(param, f"{param}: token ids of this model are below {model.vocab_size}.")


def _max_tokens(model: ModelFacts, wanted: Wanted, prompt: Prompt, most_scored: int | None) -> int:
    parameters, max_model_len = wanted.parameters, model.capacity.max_model_len
    name, asked = parameters.asked_tokens
    left = max_model_len - len(prompt.token_ids)
    if asked is not None and asked > left:
        raise too_long(
            name,
            f"This model's maximum context length is {max_model_len} tokens. The prompt has "
            f"{len(prompt.token_ids)} and {name} is {asked}: at most {left} are left.",
        )
    if asked is not None and most_scored is not None and asked > most_scored:
        raise invalid(
            name,
            f"One answer holds at most {MAX_SCORES} log probabilities: with these parameters {name} is at "
            f"most {most_scored}.",
        )
    default = left if isinstance(parameters, ChatParameters) else min(left, DEFAULT_COMPLETION_TOKENS)
    most = (default if most_scored is None else min(default, most_scored)) if asked is None else asked
    if parameters.min_tokens is not None and parameters.min_tokens > most:
        raise invalid(
            "min_tokens", f"min_tokens is {parameters.min_tokens} and at most {most} will be generated."
        )
    return most


def _scorable_tokens(wanted: Wanted) -> int | None:
    """How many tokens each output may have so that all that is told of them can be held; None: any number.

    Raises:
        ApiError: 400; the prompts alone come to more, or leave nothing for an answer of any length.
    """
    parameters, left = wanted.parameters, MAX_SCORES - _prompt_scores(wanted)
    most = None
    if not (parameters.num_logprobs is None or parameters.stream):
        most = left // (len(wanted.prompts) * parameters.num_candidates * (1 + parameters.num_logprobs))
    if left < 0 or (most == 0 and parameters.asked_tokens[1] is None):
        name = "logprobs" if parameters.prompt_logprobs is None else "prompt_logprobs"
        raise invalid(name, f"One answer holds at most {MAX_SCORES} log probabilities: ask for fewer.")
    return most


def _prompt_scores(wanted: Wanted) -> int:
    """What is told of the prompts: once in a chat, else beside each choice, and in each candidate's echo."""
    parameters, a_token = wanted.parameters, 0
    if parameters.prompt_logprobs is not None:
        copies = 1 if isinstance(parameters, ChatParameters) else parameters.num_choices
        a_token += copies * (1 + parameters.prompt_logprobs)
    if parameters.echoes and parameters.num_logprobs is not None:
        a_token += parameters.num_candidates * (1 + parameters.num_logprobs)
    return a_token * sum(len(prompt.token_ids) for prompt in wanted.prompts)


def _sampling(wanted: Wanted, steering: Steering | None, seeds: Seeds, index: int) -> Sampling:
    parameters = wanted.parameters
    picks_best = parameters.num_candidates > parameters.num_choices
    return Sampling(
        temperature=1.0 if parameters.temperature is None else parameters.temperature,
        top_p=1.0 if parameters.top_p is None else parameters.top_p,
        top_k=max(0, parameters.top_k or 0),
        min_p=parameters.min_p or 0.0,
        seed=seeds.next() if parameters.seed is None else nth_of(parameters.seed, index),
        steering=steering,
        logprobs=0 if picks_best and parameters.num_logprobs is None else parameters.num_logprobs,
        prompt_logprobs=wanted.num_prompt_logprobs if index == 0 else None,
    )


def _steering(wanted: Wanted, stop_ids: frozenset[int]) -> Steering | None:
    parameters = wanted.parameters
    bias = parameters.logit_bias or {}
    repetition = parameters.repetition_penalty
    steering = Steering(
        repetition_penalty=1.0 if repetition is None else repetition,
        presence_penalty=parameters.presence_penalty or 0.0,
        frequency_penalty=parameters.frequency_penalty or 0.0,
        logit_bias=tuple({int(name): value for name, value in bias.items()}.items()),
        bad_words=wanted.bad_words,
        allowed_token_ids=tuple(parameters.allowed_token_ids or ()),
        min_tokens=parameters.min_tokens or 0,
        late_token_ids=tuple(sorted(stop_ids)) if parameters.min_tokens else (),
    )
    return None if steering == Steering() else steering


def _stop_ids(parameters: GenerationParameters, eos_token_ids: frozenset[int]) -> frozenset[int]:
    own = frozenset(parameters.stop_token_ids or ())
    return own if parameters.ignore_eos else own | eos_token_ids


def _salt(wanted: Wanted) -> bytes:
    """The identity's, which has a fixed length or none, and the client's own."""
    return wanted.claim.block_salt + (wanted.parameters.cache_salt or "").encode()


def _after(arrival_s: float, wait_s: float | None) -> float | None:
    return None if wait_s is None else arrival_s + wait_s
