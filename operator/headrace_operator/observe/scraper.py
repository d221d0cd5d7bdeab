"""GET /metrics of our own pods, each of which may be slow, huge, lying or hostile.

Bounds: 2 s in all, 4 MiB, no redirects, no compression (asked for identity; anything else is refused), a
bounded number at once. The session carries no credentials. A failed scrape is a value; it never stops
another.
"""

import asyncio
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass

import aiohttp
from yarl import URL

from headrace_operator.api.spec import Runtime
from headrace_operator.observe.body import BodyTooLargeError, read_bounded
from headrace_operator.observe.exposition import Exposition, ExpositionError, parse

TIMEOUT_S = 2.0
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_CONCURRENCY = 32
HEADERS = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a pod that we own serves its metrics."""

    pod_uid: str
    ip: str
    port: int
    runtime: Runtime = Runtime.HEADRACE
    """Whose metrics these are."""

    @property
    def url(self) -> URL:
        return URL.build(scheme="http", host=self.ip, port=self.port, path="/metrics")


@dataclass(frozen=True, slots=True)
class ScrapeFailure:
    """Why there is no sample: `Unreachable`, `TimedOut`, `Refused` (answer not taken) or `Malformed`."""

    reason: str
    message: str


class Scraper:
    def __init__(self, *, timeout_s: float = TIMEOUT_S, concurrency: int = MAX_CONCURRENCY) -> None:
        self._slots = asyncio.Semaphore(concurrency)
        self._timeout_s = timeout_s
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            connector=aiohttp.TCPConnector(limit=concurrency, force_close=True),
            headers=HEADERS,
            skip_auto_headers=("User-Agent",),
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def aclose(self) -> None:
        await self._session.close()

    async def scrape(self, target: Target, *, wanted: Collection[str]) -> Exposition | ScrapeFailure:
        async with self._slots:
            try:
                body = await self._fetch(target.url)
            except TimeoutError:
                return ScrapeFailure("TimedOut", f"no complete answer within {self._timeout_s:g} s")
            except (_RefusedError, BodyTooLargeError) as error:
                return ScrapeFailure("Refused", str(error))
            except (aiohttp.ClientError, OSError, ValueError) as error:
                return ScrapeFailure("Unreachable", f"{type(error).__name__}: {error}"[:200])
        try:
            return parse(body, wanted=wanted)
        except ExpositionError as error:
            return ScrapeFailure("Malformed", str(error)[:200])

    async def _fetch(self, url: URL) -> bytes:
        async with self._session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise _RefusedError(f"status {response.status}")
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise _RefusedError("compressed, though identity was asked for")
            return await read_bounded(response, max_bytes=MAX_BODY_BYTES)


class _RefusedError(Exception):
    """An answer that is not taken."""


def is_pod_address(ip: str) -> bool:
    """Whether a pod can have this address: never loopback, link-local (cloud metadata), multicast or none."""
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return not (
        address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    )
