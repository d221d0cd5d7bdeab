"""How the watches prove who we are, whatever becomes of the token.

kopf asks again whenever the server answers 401, and ends for good when it is given what was refused before.
So each answer is a new one, even with the same token: a server that could not check it for a while takes it
again later. Answers that follow each other closely are given ever more slowly.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta

import kopf

from headrace_operator.ingest.settings import EndlessBackoff
from headrace_operator.kube.auth import Credentials, CredentialsError

CALM_S = 60.0
"""A login that held for so long owes nothing to the one before it."""
UNREADABLE_S = 5.0
_FAR = datetime(9000, 1, 1, tzinfo=UTC)


class Login:
    """`read` reads the credentials as of now; `clock` is monotonic seconds."""

    def __init__(
        self,
        read: Callable[[], Awaitable[Credentials]],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._read = read
        self._clock = clock
        self._sleep = sleep
        self._number = 0
        self._given_at_s: float | None = None
        self._delays: Iterator[float] = iter(())

    async def __call__(self) -> kopf.ConnectionInfo:
        if self._given_at_s is None or self._clock() - self._given_at_s > CALM_S:
            self._delays = iter(EndlessBackoff())
        else:
            await self._sleep(next(self._delays))
        try:
            credentials = await self._read()
        except CredentialsError as error:
            raise kopf.TemporaryError(str(error), delay=UNREADABLE_S) from error
        self._number += 1
        self._given_at_s = self._clock()
        return self._connection(credentials)

    def _connection(self, credentials: Credentials) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(
            server=credentials.server,
            ca_path=credentials.ca_path,
            certificate_path=credentials.certificate_path,
            private_key_path=credentials.private_key_path,
            scheme="Bearer" if credentials.token else None,
            token=credentials.token,
            insecure=credentials.insecure,
            expiration=_FAR + timedelta(seconds=self._number),
        )
