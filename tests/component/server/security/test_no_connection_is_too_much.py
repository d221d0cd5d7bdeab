"""Bytes on a socket that stalled, smuggled or crashed elsewhere. Each is answered by a 4xx or closed, and the
client beside it notices nothing.
"""

import socket

import pytest
from attacked_server import Answer, completion, post

GET = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        GET + b"X: " + b"y" * 50_000_000 + b"\r\n\r\n",
        GET + b"X: y\r\n" * 500_000 + b"\r\n",
        b"GET /" + b"y" * 50_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"y" * 50_000_000,
    ],
    ids=["one header of 50 MB", "500,000 headers", "a URL of 50 MB", "50 MB of nothing"],
)
def test_giant_headers_are_not_read(target, request_) -> None:
    """CVE-2025-48956: a header of 50 MB, without a key, took memory and stalled the loop for seconds."""
    (answer,) = target.unharmed(request_)
    assert answer.status in (None, 400, 414, 431)


SMUGGLED = {
    "length and chunks": post(b"0\r\n\r\n", "Content-Length: 5", "Transfer-Encoding: chunked"),
    "two lengths": post(b"{}", "Content-Length: 2", "Content-Length: 3"),
    "two hosts": post(b"{}", "Host: a", "Host: b"),
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "a chunk that ends otherwise": post(b"2\r\n{}XX0\r\n\r\n", "Transfer-Encoding: chunked"),
    "a chunk of a negative size": post(b"-2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    "a chunk's size with a blank": post(b"2 2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    "chunks under another name": post(b"2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: xchunked"),
    "a blank before the colon": post(b"{}", "Content-Length : 2"),
    "a folded header": post(b"{}", "X: a\r\n b"),
}


@pytest.mark.parametrize("request_", SMUGGLED.values(), ids=SMUGGLED)
def test_what_two_readers_would_read_differently_is_refused_and_the_connection_closed(
    target, request_
) -> None:
    """CVE-2025-43859: lenient ends of chunks let a second request hide behind the first."""
    hidden = request_ + b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
    (answer,) = target.unharmed(hidden)
    assert answer.status in (400, 501)
    assert answer.received.count(b"HTTP/1.1 ") == 1


def test_three_megabytes_in_crumbs_are_cut_off(target) -> None:
    """CVE-2025-23310: 3 MB in tiny chunks overflowed a stack."""
    (answer,) = target.unharmed(post(b"1\r\na\r\n" * 500_000, "Transfer-Encoding: chunked"))
    assert answer.status in (None, 400, 408)


@pytest.mark.parametrize(
    "type_", ["multipart/form-data; boundary=" + "-" * 20_000, "multipart/form-data", "text/plain"]
)
def test_no_form_is_parsed(target, type_) -> None:
    """CVE-2024-9056: a boundary and what was appended to it burnt processor time."""
    form = b"--" + b"-" * 4_000_000
    assert target.unharmed(post(form, f"Content-Type: {type_}"))[0].status == 415


def test_a_body_that_says_it_is_large_is_not_waited_for(target) -> None:
    (answer,) = target.unharmed(post(b"", "Content-Length: 104857600"))
    assert answer.status == 413, "408 after a wait"


def test_five_hundred_slow_strangers_slow_nobody(target) -> None:
    """A server without a receipt deadline kept each of them for ever."""

    def attack() -> list[Answer]:
        strangers = [target.connect() for _ in range(500)]
        for number, stranger in enumerate(strangers):
            stranger.sendall([b"", GET, post(completion())[:-9]][number % 3])
        return [Answer(read_to_the_end(stranger)) for stranger in strangers]

    answers = target.unharmed_by(attack)
    assert {answer.status for answer in answers} == {408}


def read_to_the_end(connection: socket.socket) -> bytes:
    with connection:
        received = b""
        while piece := connection.recv(4096):
            received += piece
        return received
