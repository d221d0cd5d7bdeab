"""One load from its settings: connects, names the model, sends, and calls `watch` while it runs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import httpx

from headrace_bench.client import Client, http_client
from headrace_bench.load import Bounds, Load
from headrace_bench.workload import Lengths, asks, poisson_arrivals

WATCH_INTERVAL_S = 0.25


class EndpointError(RuntimeError):
    """The endpoint cannot be loaded at all; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole load: open loop at `rate_per_s`, or closed loop with `concurrency` users."""

    base_url: str
    lengths: Lengths
    bounds: Bounds
    rate_per_s: float | None = None
    concurrency: int | None = None
    model: str | None = None
    """None is the first model that the endpoint lists."""
    api_key: str | None = None
    timeout_s: float = 120.0
    max_retries: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.rate_per_s is None) == (self.concurrency is None):
            raise ValueError("a load is open-loop (a rate) or closed-loop (a concurrency), one of the two")


async def run(settings: Settings, watch: Callable[[Load], None] = lambda _load: None) -> Load:
    """Runs the load to its end; `watch` is called a few times a second and once at the end.

    Raises:
        EndpointError: no model was named and the endpoint lists none.
    """
    async with http_client(settings.base_url, api_key=settings.api_key, timeout_s=settings.timeout_s) as http:
        model = settings.model or await first_model(http)
        client = Client(http, model, max_retries=settings.max_retries)
        load = Load(client, asks(settings.lengths, _generator(settings.seed)), settings.bounds)
        sending = asyncio.create_task(_send(load, settings))
        while not sending.done():
            watch(load)
            await asyncio.wait([sending], timeout=WATCH_INTERVAL_S)
        watch(load)
        await sending
        return load


async def first_model(http: httpx.AsyncClient) -> str:
    """The id of the first model that the endpoint lists."""
    try:
        response = await http.get("models")
        response.raise_for_status()
        return str(response.json()["data"][0]["id"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        where = f"{http.base_url}models"
        raise EndpointError(
            f"{where} lists no model ({error!r}): check --base-url, or name one by --model"
        ) from error


async def _send(load: Load, settings: Settings) -> None:
    if settings.rate_per_s is not None:
        # A generator of its own: another mix of lengths leaves the arrivals as they were.
        await load.open_loop(poisson_arrivals(settings.rate_per_s, _generator(settings.seed + 1)))
    else:
        await load.closed_loop(settings.concurrency or 1, pause_s=0.1)


def _generator(seed: int) -> Random:
    # A load is to be repeatable, not secret.
    return Random(seed)  # noqa: S311
