"""Where spans are exported to."""

from urllib.parse import urlsplit


def traces_url(endpoint: str) -> str:
    """A collector's URL for OTLP over HTTP; `/v1/traces` where it has no path of its own.

    Raises:
        ValueError: it is no such URL, or holds a secret, which would stand in the log.
    """
    parts = urlsplit(endpoint)
    if parts.username is not None or parts.password is not None:
        raise ValueError("takes no user and password: they go into OTEL_EXPORTER_OTLP_HEADERS")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"takes a collector's URL, such as http://collector:4318, not {endpoint!r}")
    return endpoint if parts.path.strip("/") else parts._replace(path="/v1/traces").geturl()
