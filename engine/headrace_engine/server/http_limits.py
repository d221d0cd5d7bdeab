"""How much of a stranger's HTTP the server takes: sizes, counts and times. Configuration, never off."""

from dataclasses import dataclass

FILES_BESIDE_CONNECTIONS = 128
"""Weights, libraries, the template's child, the sockets that listen."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_url_bytes: int = 2048
    max_headers: int = 64
    max_header_bytes: int = 32 << 10
    header_timeout_s: float = 5.0
    """From the connection, or the first byte of a later request, to the end of its headers."""
    body_timeout_s: float = 10.0
    linger_s: float = 1.0
    """How long a refused body is still read: closing on a client that writes would lose it the answer."""
    max_bodies_bytes: int = 128 << 20
    """All bodies together that are being read."""
    keep_alive_s: float = 10.0
    """Longer than the official clients keep a connection, 5 s: what they send while it closes is lost."""
    write_stall_s: float = 30.0
    """A client that reads nothing for this long, while there is something to read, is cut off."""
    max_body_reads: int = 4096
    """Pieces in which one body may come: a body in one-byte chunks costs more than any model."""
    max_pipelined_bytes: int = 64 << 10
    max_connections: int = 2304
    max_connections_per_address: int = 1152
    """One address may be a gateway or a node's address translation, so this is half of all and not a
    handful.
    """

    @classmethod
    def of(cls, max_requests: int, max_open_files: int) -> "HttpLimits":
        """For an engine that holds `max_requests`, running and queued, in a process that may open so many
        files. Where those ran out, probes could not connect any more.
        """
        most = max(1, min(max(128, 2 * max_requests), max_open_files - FILES_BESIDE_CONNECTIONS))
        return cls(max_connections=most, max_connections_per_address=max(1, most // 2))
