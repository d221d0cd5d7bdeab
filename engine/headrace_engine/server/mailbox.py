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
        self._arrived = asyncio.Event()

    def put(self, mail: Mail) -> None:
        self._mail.append(mail)
        self._arrived.set()

    async def take(self) -> list[Mail]:
        """Everything that has come, at least one."""
        await self._arrived.wait()
        self._arrived.clear()
        mail, self._mail = self._mail, []
        return mail
