"""A streamed answer: every delta as chunks, in OpenAI's order, with `[DONE]` at the end whatever happens."""

from collections.abc import AsyncIterator
from functools import partial

from headrace_engine.server.aside import aside
from headrace_engine.server.errors import ApiError, ErrorBody
from headrace_engine.server.generation import Disconnected, Generation
from headrace_engine.server.output import Delta, Usage
from headrace_engine.server.wire import DONE, Chunks, error_event
from headrace_engine.server.wishes import Wishes

NO_USAGE = Usage(0, 0, 0)
"""For chunks that do not tell it: adding it up for each would cost more than the chunk."""


class Stream:
    """One answer on its way."""

    def __init__(self, generation: Generation, chunks: Chunks, wishes: Wishes) -> None:
        self._generation = generation
        self._chunks = chunks
        self._logprobs = wishes.new_logprobs()
        self._tells_ids = wishes.token_ids
        self._prompts = {
            choice.index: choice.beginning.token_ids for choice in generation.choices if wishes.token_ids
        }
        """By choice, until they are told."""

    async def events(self, first: list[Delta]) -> AsyncIterator[bytes]:
        """Ends with `[DONE]`, unless nobody is there to read it."""
        generation, chunks = self._generation, self._chunks
        try:
            events, deltas = self._roles(), first
            while True:
                num_told = sum([delta.num_told for delta in deltas])
                events += await aside(num_told, partial(self._rendered, deltas))
                if events:
                    yield events
                if generation.done:
                    break
                deltas, events = await generation.next(), b""
            yield chunks.usage(generation.usage) + DONE
        except Disconnected:
            return
        except ApiError as error:
            yield error_event(error.body.document()) + DONE
        except Exception:
            failure = ErrorBody("The server failed on this request.", "server_error")
            yield error_event(failure.document()) + DONE
            raise

    def _roles(self) -> bytes:
        usage, prompts = self._generation.usage, self._prompts
        choices = self._generation.choices
        return b"".join(self._chunks.role(each.index, usage, prompts.get(each.index)) for each in choices)

    def _rendered(self, deltas: list[Delta]) -> bytes:
        events = []
        usage = self._generation.usage if self._chunks.continuous_usage else NO_USAGE
        for delta in deltas:
            tells_ids = self._tells_ids and (delta.token_ids or delta.index in self._prompts)
            if delta.num_told or tells_ids:
                events.append(self._told(delta, usage))
            elif delta.text:
                events.append(self._chunks.text(delta.index, delta.text, usage))
            if delta.finish_reason is not None:
                events.append(self._chunks.finish(delta.index, delta.finish_reason, usage))
        return b"".join(events)

    def _told(self, delta: Delta, usage: Usage) -> bytes:
        """Text that may be empty yet, with what the client wants told of its tokens."""
        self._logprobs.add(delta.told())
        prompt = self._prompts.pop(delta.index, None)
        ids = self._chunks.token_ids(delta.token_ids, prompt) if self._tells_ids else b""
        return self._chunks.text(delta.index, delta.text, usage, logprobs=self._logprobs.take(), more=ids)
