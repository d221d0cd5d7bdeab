"""Asks the same through LangChain's and LlamaIndex's clients for servers like OpenAI's; prints what they saw.

    python frameworks.py http://127.0.0.1:8000

Each question is put whole and streamed, blocking and not. Runs without the network.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langchain_openai import OpenAI as LangChainCompletions
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

MODEL = "alphabet"
SYSTEM, USER = "be brief", "a"
Seen = dict[str, Any]


def in_order(pieces: list[str]) -> Seen:
    return {"text": "".join(pieces), "streamed": sum(bool(piece) for piece in pieces) > 1}


# --- LangChain ----------------------------------------------------------------------------------------------


def of_message(message: BaseMessage) -> Seen:
    usage = message.usage_metadata
    return {
        "text": message.content,
        "finish_reason": message.response_metadata["finish_reason"],
        "usage": [usage[name] for name in ("input_tokens", "output_tokens", "total_tokens")],
    }


def of_chunks(chunks: list[AIMessageChunk]) -> Seen:
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    return of_message(total) | {"streamed": sum(bool(chunk.content) for chunk in chunks) > 1}


def tokens_of(message: BaseMessage) -> list[tuple[str, float]]:
    told = message.response_metadata.get("logprobs") or {"content": []}
    return [(each["token"], each["logprob"]) for each in told["content"]]


class LangChain:
    def __init__(self, url: str) -> None:
        options = {"base_url": url + "/v1", "api_key": "none", "model": MODEL, "max_retries": 0}
        self._chat = ChatOpenAI(**options, max_tokens=5, stream_usage=True)
        self._scored = ChatOpenAI(**options, max_tokens=2, logprobs=True, top_logprobs=1)
        self._text = LangChainCompletions(**options, max_tokens=5)
        self._messages = [SystemMessage(SYSTEM), HumanMessage(USER)]

    def chat(self) -> Seen:
        return of_message(self._chat.invoke(self._messages))

    def chat_stream(self) -> Seen:
        return of_chunks(list(self._chat.stream(self._messages)))

    async def chat_async(self) -> Seen:
        return of_message(await self._chat.ainvoke(self._messages))

    async def chat_async_stream(self) -> Seen:
        return of_chunks([chunk async for chunk in self._chat.astream(self._messages)])

    def chat_batch(self) -> Seen:
        answers = self._chat.batch([self._messages] * 3)
        return {"texts": [answer.content for answer in answers]}

    def chat_logprobs(self) -> Seen:
        return {"logprobs": tokens_of(self._scored.invoke(self._messages))}

    def chat_logprobs_stream(self) -> Seen:
        chunks = list(self._scored.stream(self._messages))
        return {"logprobs": [token for chunk in chunks for token in tokens_of(chunk)]}

    def chat_stops(self) -> Seen:
        return of_message(self._chat.invoke(self._messages, stop=["cd"]))

    def completion(self) -> Seen:
        return {"text": self._text.invoke(USER)}

    def completion_stream(self) -> Seen:
        return in_order(list(self._text.stream(USER)))


# --- LlamaIndex ---------------------------------------------------------------------------------------------


class LlamaIndex:
    def __init__(self, url: str) -> None:
        options = {"api_base": url + "/v1", "api_key": "none", "model": MODEL, "max_retries": 0}
        options |= {"max_tokens": 5, "context_window": 256}
        self._chat = OpenAILike(**options, is_chat_model=True)
        self._text = OpenAILike(**options, is_chat_model=False)
        self._messages = [ChatMessage(role="system", content=SYSTEM), ChatMessage(role="user", content=USER)]

    def chat(self) -> Seen:
        answer = self._chat.chat(self._messages)
        usage = answer.raw.usage
        return {
            "text": answer.message.content,
            "finish_reason": answer.raw.choices[0].finish_reason,
            "usage": [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens],
        }

    def chat_stream(self) -> Seen:
        return in_order([each.delta for each in self._chat.stream_chat(self._messages)])

    async def chat_async(self) -> Seen:
        return {"text": (await self._chat.achat(self._messages)).message.content}

    async def chat_async_stream(self) -> Seen:
        stream = await self._chat.astream_chat(self._messages)
        return in_order([each.delta async for each in stream])

    def completion(self) -> Seen:
        return {"text": self._text.complete(USER).text}

    def completion_stream(self) -> Seen:
        return in_order([each.delta for each in self._text.stream_complete(USER)])


def questions(of: object) -> Iterator[tuple[str, Callable[[], Seen | Awaitable[Seen]]]]:
    return ((name, getattr(of, name)) for name in vars(type(of)) if not name.startswith("_"))


async def answers(url: str) -> AsyncIterator[tuple[str, Seen]]:
    for framework in (LangChain(url), LlamaIndex(url)):
        for name, ask in questions(framework):
            seen = await ask() if asyncio.iscoroutinefunction(ask) else await asyncio.to_thread(ask)
            yield f"{type(framework).__name__} {name.replace('_', ' ')}", seen


async def main(url: str) -> None:
    async for case, saw in answers(url):
        print(json.dumps({"case": case, "saw": saw}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
