"""A small piece of an answer is not held back until the client's kernel acknowledges the one before, 40 ms
later.
"""

import socket


def test_what_is_written_to_a_connection_leaves_at_once(server) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert server.accepted(connection).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
