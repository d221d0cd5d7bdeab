"""The events of one HTTP request's engine requests, on their way from the step loop to its handler.

Lives on the event loop. What comes in while the handler is busy is taken in one go, so a slow client costs
fewer, larger chunks and never a queue beyond its own tokens.
"""

import asyncio
from dataclasses import dataclass

from headrace_engine.core.plan import Event, Rejection


@dataclass(frozen=True, slots=True)
class Refused:
    """The engine did not accept the request."""

    request_id: str
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """The connection is gone; nobody reads any more."""


Mail = Event | Refused | ClientLeft


class Mailbox:
    def __init__(self) -> None:
        self._mail: list[Mail] = []
        self._reader: asyncio.Future[None] | None = None

    def put(self, mail: Mail) -> None:
        self._mail.append(mail)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def take(self) -> list[Mail]:
        """Everything that has come, at least one. One reader at a time."""
        # A bare future: an event's bookkeeping would be paid for every token of every stream.
        while not self._mail:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        mail, self._mail = self._mail, []
        return mail
