"""What a client of the official Python package saw of one answer, as plain data to compare."""

from typing import Any

import openai


def of_error(error: openai.OpenAIError) -> dict[str, Any]:
    response = getattr(error, "response", None)
    return {
        "error": {
            "class": type(error).__name__,
            "status": getattr(error, "status_code", None),
            **{name: getattr(error, name, None) for name in ("param", "code", "type")},
            "retry_after": response is not None and int(response.headers.get("retry-after", 0)) >= 1,
        }
    }


def of_usage(usage: Any) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "prompt": usage.prompt_tokens,
        "completion": usage.completion_tokens,
        "total": usage.total_tokens,
        "cached": usage.prompt_tokens_details.cached_tokens,
    }


def of_answer(answer: Any) -> dict[str, Any]:
    messages = [getattr(choice, "message", None) for choice in answer.choices]
    return {
        "id": answer.id.split("-")[0],
        "model": answer.model,
        "roles": [message and message.role for message in messages],
        "texts": [
            message.content if message else choice.text
            for message, choice in zip(messages, answer.choices, strict=True)
        ],
        "finish_reasons": [choice.finish_reason for choice in answer.choices],
        "logprobs": [of_logprobs(choice.logprobs) for choice in answer.choices],
        "usage": of_usage(answer.usage),
        "request_id": answer._request_id,
    }


def of_logprobs(logprobs: Any) -> list[dict[str, Any]] | None:
    """A chat's and a completion's in one shape: token, how likely, and the alternatives' number."""
    if logprobs is None:
        return None
    if (content := getattr(logprobs, "content", None)) is not None:
        return [
            {"token": each.token, "logprob": each.logprob, "top": [top.token for top in each.top_logprobs]}
            for each in content
        ]
    tops = logprobs.top_logprobs or [None] * len(logprobs.tokens)
    return [
        {"token": token, "logprob": logprob, "top": sorted(top) if top else []}
        for token, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs, tops, strict=True)
    ]


class Stream:
    """Adds the chunks of one stream up to what a whole answer would have been."""

    def __init__(self) -> None:
        self.num_chunks = 0
        self._heads: set[tuple[Any, ...]] = set()
        self._choices: dict[int, dict[str, Any]] = {}
        self._usages: list[dict[str, Any]] = []

    def add(self, chunk: Any) -> None:
        self.num_chunks += 1
        self._heads.add((chunk.id, chunk.created, chunk.model))
        if (usage := of_usage(chunk.usage)) is not None:
            self._usages.append(usage)
        for each in chunk.choices:
            choice = self._choices.setdefault(
                each.index, {"role": None, "text": "", "reason": None, "logprobs": None}
            )
            assert choice["reason"] is None, "a choice went on after its finish reason"
            delta = getattr(each, "delta", None)
            choice["role"] = choice["role"] or getattr(delta, "role", None)
            choice["text"] += (delta.content if delta else each.text) or ""
            choice["reason"] = each.finish_reason
            if (logprobs := of_logprobs(each.logprobs)) is not None:
                choice["logprobs"] = (choice["logprobs"] or []) + logprobs

    def seen(self) -> dict[str, Any]:
        ((answer_id, _, model),) = self._heads
        choices = [self._choices[index] for index in sorted(self._choices)]
        totals = [usage["total"] for usage in self._usages]
        return {
            "id": answer_id.split("-")[0],
            "model": model,
            "roles": [choice["role"] for choice in choices],
            "texts": [choice["text"] for choice in choices],
            "finish_reasons": [choice["reason"] for choice in choices],
            "logprobs": [choice["logprobs"] for choice in choices],
            "usage": self._usages[-1] if self._usages else None,
            "usage_grows": len(totals) > 1 and totals == sorted(totals),
        }
