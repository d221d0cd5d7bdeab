"""The real scraper against real servers that do what a pod must not (security rows 71 to 76)."""

import asyncio
import gzip
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from headrace_operator.observe.exposition import Exposition
from headrace_operator.observe.scraper import MAX_BODY_BYTES, ScrapeFailure, Scraper, Target, is_pod_address

Speak = Callable[[asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
BODY = b"# TYPE up_total counter\nup_total 7\n"


@asynccontextmanager
async def pod(speak: Speak, *, heard: list[bytes] | None = None) -> AsyncIterator[Target]:
    """A pod that answers any request with whatever `speak` writes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if heard is not None:
            heard.append(request)
        try:
            await speak(writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield Target("uid", "127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()


def says(*parts: bytes) -> Speak:
    async def speak(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return speak


async def drips(writer: asyncio.StreamWriter) -> None:
    writer.write(OK + b"\r\n")
    while True:
        writer.write(b"#")
        await writer.drain()
        await asyncio.sleep(0.05)


async def silence(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def never_ends(writer: asyncio.StreamWriter) -> None:
    writer.write(OK + b"\r\n")
    line = b"# nothing of interest\n" * 3000
    while True:
        writer.write(line)
        await writer.drain()


async def scrape(speak: Speak, *, timeout_s: float = 60.0) -> Exposition | ScrapeFailure:
    async with pod(speak) as target, aclosing(Scraper(timeout_s=timeout_s)) as scraper:
        return await scraper.scrape(target, wanted=["up_total"])


async def test_an_honest_pod_is_read_without_compression_or_credentials():
    heard: list[bytes] = []
    async with pod(says(OK + b"\r\n", BODY), heard=heard) as target, aclosing(Scraper()) as scraper:
        found = await scraper.scrape(target, wanted=["up_total"])
    assert isinstance(found, Exposition)
    assert found.samples["up_total"][0].value == 7
    [request] = heard
    assert request.startswith(b"GET /metrics HTTP/1.1\r\n")
    assert b"Accept-Encoding: identity" in request
    assert b"authorization" not in request.lower()
    assert b"cookie" not in request.lower()


@pytest.mark.parametrize("speak", [drips, silence], ids=["one byte at a time", "nothing at all"])
async def test_the_whole_answer_has_one_deadline(speak: Speak):
    found = await scrape(speak, timeout_s=0.2)
    assert isinstance(found, ScrapeFailure)
    assert found.reason == "TimedOut"


async def test_an_endless_answer_is_cut_and_held_in_bounded_memory():
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = await scrape(never_ends)
    assert isinstance(found, ScrapeFailure)
    assert found.reason == "Refused"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 16 * 1024


async def test_an_answer_that_announces_too_much_is_refused_unread():
    found = await scrape(says(OK + b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1)))
    assert found == ScrapeFailure("Refused", f"more than {MAX_BODY_BYTES} bytes")


async def test_a_compressed_answer_is_refused_before_it_is_a_bomb():
    bomb = gzip.compress(b"a" * 50_000_000)
    found = await scrape(says(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb), bomb))
    assert isinstance(found, ScrapeFailure)
    assert found.reason == "Refused"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(code: int):
    heard: list[bytes] = []
    async with pod(says(OK + b"\r\n", BODY), heard=heard) as elsewhere:
        location = f"http://127.0.0.1:{elsewhere.port}/metrics".encode()
        found = await scrape(
            says(b"HTTP/1.1 %d Go\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (code, location))
        )
    assert isinstance(found, ScrapeFailure)
    assert found.reason == "Refused"
    assert heard == []


@pytest.mark.parametrize(
    "speak",
    [
        says(b"\x16\x03\x01 not http at all\r\n\r\n"),
        says(b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"y" * 100_000 + b"\r\n\r\n"),
        says(OK + b"Content-Length: 100\r\n\r\n", b"short"),
        says(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\nnot a chunk\r\n"),
        says(b""),
    ],
    ids=["no HTTP", "a header of 100 kB", "cut short", "a broken chunk", "closed at once"],
)
async def test_a_broken_answer_is_a_failure(speak: Speak):
    found = await scrape(speak)
    assert isinstance(found, ScrapeFailure)
    assert found.reason == "Unreachable"


async def test_an_error_page_or_a_malformed_text_is_a_failure():
    page = await scrape(says(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"))
    text = await scrape(says(OK + b"\r\n", b"up_total seven\n"))
    assert page == ScrapeFailure("Refused", "status 503")
    assert isinstance(text, ScrapeFailure)
    assert text.reason == "Malformed"


async def test_honest_pods_are_scraped_in_time_beside_hostile_ones():
    async with (
        pod(drips) as slow,
        pod(never_ends) as endless,
        pod(silence) as silent,
        pod(says(OK + b"\r\n", BODY)) as honest,
        aclosing(Scraper(timeout_s=60)) as scraper,
    ):
        targets = (slow, endless, silent, honest)
        scrapes = [asyncio.create_task(scraper.scrape(target, wanted=["up_total"])) for target in targets]
        assert isinstance(await scrapes[3], Exposition)
        assert isinstance(await scrapes[1], ScrapeFailure)
        assert not scrapes[0].done()
        assert not scrapes[2].done(), "nobody waited for the hostile ones"
        for scraping in scrapes:
            scraping.cancel()


@pytest.mark.parametrize(
    ("ip", "dialed"),
    [
        ("10.0.0.7", True),
        ("fd00::7", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::ffff:127.0.0.1", False),
        ("localhost", False),
        ("example.com", False),
        ("", False),
    ],
)
def test_only_an_address_that_a_pod_can_have_is_dialed(ip: str, dialed: bool):
    assert is_pod_address(ip) is dialed
