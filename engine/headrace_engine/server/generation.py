"""One HTTP request's answer as it grows: text by choice, until every choice has ended.

A request that does not end well raises from `next` as the `ApiError` that its client should see. A client
that disconnects, streaming or not, is noticed here and its requests are aborted before the next step.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, assert_never

from headrace_engine.core.plan import (
    Finished,
    Preempted,
    PromptLogprobs,
    Rejection,
    Scheduled,
    Tokens,
)
from headrace_engine.core.request import FinishReason
from headrace_engine.server.choice import Choice, usage_of
from headrace_engine.server.engine import Engine
from headrace_engine.server.errors import ApiError, failed, invalid, overloaded, too_long, unavailable
from headrace_engine.server.mailbox import ClientLeft, Mail, Mailbox, Refused
from headrace_engine.server.output import Delta, Usage
from headrace_engine.telemetry.logs import request_id_in_log

Receive = Callable[[], Awaitable[Any]]
RETRY_JITTER = 0.25
"""Clients that were refused together should not come back together."""


class Disconnected(Exception):  # noqa: N818 - not an error of anybody's
    """The client left; there is nobody to answer."""


class Generation:
    """Reads the mailbox of requests already submitted; `choices` are by their ids, in order."""

    def __init__(
        self,
        engine: Engine,
        mailbox: Mailbox,
        choices: dict[str, Choice],
        *,
        param: str,
        retry_after_s: float,
    ) -> None:
        self._engine = engine
        self._mailbox = mailbox
        self._choices = choices
        self._param = param
        self._retry_after_s = retry_after_s
        self._watcher: asyncio.Task[None] | None = None
        self._error: ApiError | None = None
        """What ends the answer, once all text that came before it was given."""
        self._has_begun = False

    def watch(self, receive: Receive) -> None:
        """Notice the client's disconnect from now on. The request's body has been read."""
        self._watcher = asyncio.create_task(self._abort_on_disconnect(receive))

    def close(self) -> None:
        """The answer has been given, or never will be: nothing stays behind in the engine."""
        if self._watcher is not None:
            self._watcher.cancel()
        self._abort_unfinished()
        self._engine.leave(self._mailbox)

    @property
    def choices(self) -> list[Choice]:
        return list(self._choices.values())

    @property
    def done(self) -> bool:
        return all(choice.output.finished is not None for choice in self._choices.values())

    @property
    def usage(self) -> Usage:
        """Of all choices together."""
        return usage_of(self.choices)

    async def next(self) -> list[Delta]:
        """What came since the last call; waits until a token or an end has come.

        Raises:
            ApiError: the request was refused, expired, cut off or failed.
            Disconnected: the client left.
        """
        while self._error is None:
            deltas: dict[int, Delta] = {}
            for mail in await self._mailbox.take():
                self._apply(mail, deltas)
            if self._error is not None and not self._has_begun:
                break
            if deltas:
                self._has_begun = True
                return list(deltas.values())
        assert self._error is not None
        raise self._error

    def _apply(self, mail: Mail, deltas: dict[int, Delta]) -> None:
        match mail:
            case ClientLeft():
                raise Disconnected
            case Refused(rejection=rejection):
                self._error = self._error or self._refusal(rejection)
            case Scheduled():
                choice = self._choices[mail.request_id]
                if choice.leads:
                    choice.beginning.cached_tokens = mail.cached_tokens
            case Preempted():
                pass
            case PromptLogprobs():
                self._choices[mail.request_id].beginning.scores += mail.logprobs
            case Tokens() | Finished():
                self._grow(mail, deltas)
            case _:
                assert_never(mail)

    def _grow(self, event: Tokens | Finished, deltas: dict[int, Delta]) -> None:
        choice = self._choices[event.request_id]
        if choice.output.finished is not None:
            return
        if isinstance(event, Finished) and event.reason not in (FinishReason.STOP, FinishReason.LENGTH):
            self._error = self._error or self._failure(event)
            return
        choice.grow(event, deltas.setdefault(choice.index, Delta(choice.index)))
        if choice.output.finished is not None and isinstance(event, Tokens):
            self._engine.abort([event.request_id], choice.output.finished)

    def _refusal(self, rejection: Rejection) -> ApiError:
        match rejection.reason:
            case "never_fits":
                return too_long(self._param, rejection.message)
            case "invalid":
                return invalid(self._param, rejection.message)
            case "invalid_priority":
                return invalid("priority", rejection.message)
            case "draining":
                return unavailable("draining", rejection.message)
            case _:
                return self._overloaded(rejection)

    def _failure(self, event: Finished) -> ApiError:
        match event.reason:
            case FinishReason.EXPIRED:
                message = (
                    "The request was not scheduled by its queue deadline. Try again after the time given."
                )
                return self._overloaded(Rejection("queue_deadline", message))
            case FinishReason.ABORT:
                return unavailable("shutting_down", "The server is shutting down and ended this request.")
            case _:
                name = request_id_in_log.get()
                return failed(f"The engine failed and is restarting. Try again (request {name}).")

    def _overloaded(self, rejection: Rejection) -> ApiError:
        told_s = rejection.retry_after_s
        wait_s = self._retry_after_s if told_s is None else told_s
        if not rejection.is_exact:
            wait_s *= random.uniform(1, 1 + RETRY_JITTER)  # noqa: S311
        return overloaded(rejection.reason, rejection.message, wait_s)

    async def _abort_on_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._mailbox.put(ClientLeft())
        self._abort_unfinished()

    def _abort_unfinished(self) -> None:
        unfinished = [name for name, choice in self._choices.items() if choice.output.finished is None]
        if unfinished:
            self._engine.abort(unfinished)
