"""Asking a cluster's daemons whether they are ready, and waiting for them as long as they live."""

import http.client
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace_local.network import API_PORT, Addresses
from headrace_local.pki import Pki
from headrace_local.processes import Daemons

ASK_TIMEOUT_S = 2.0
POLL_INTERVAL_S = 0.03


class ClusterError(Exception):
    """The cluster did not do what it was asked; the message says what it said."""


@dataclass(frozen=True, slots=True)
class Api:
    """The API server as the administrator sees it."""

    addresses: Addresses
    tls: ssl.SSLContext

    @classmethod
    def of(cls, addresses: Addresses, pki: Pki) -> "Api":
        tls = ssl.create_default_context(cafile=str(pki.authority.certificate))
        tls.load_cert_chain(pki.admin.certificate, pki.admin.key)
        return cls(addresses, tls)

    def get(self, path: str) -> dict[str, Any] | None:
        """An object; None when it or the API server is not there (yet)."""
        body = self._ask(path)
        return json.loads(body) if body is not None else None

    def is_ready(self) -> bool:
        return self._ask("/readyz") == b"ok"

    def _ask(self, path: str) -> bytes | None:
        host = str(self.addresses.node)
        connection = http.client.HTTPSConnection(host, API_PORT, timeout=ASK_TIMEOUT_S, context=self.tls)
        return _get(connection, path)


def answers(host: str, port: int, path: str) -> bool:
    """Whether an HTTP health check says yes."""
    return _get(http.client.HTTPConnection(host, port, timeout=ASK_TIMEOUT_S), path) is not None


def node_is_ready(node: dict[str, Any] | None) -> bool:
    """Whether the node's own condition says so; False for no node."""
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def await_ready(daemons: Daemons, what: str, ready: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
    """Wait until `ready()`; raises `ClusterError` at once when a daemon dies, or at the end of the time."""
    deadline_s = time.monotonic() + timeout_s
    while not ready():
        for process in daemons.all():
            if not process.alive:
                raise ClusterError(f"{process.name} ended:\n{daemons.last_words(process.name)}")
        if time.monotonic() > deadline_s:
            raise ClusterError(
                f"{what} did not become ready in {timeout_s:.0f} s; its log is in {daemons.logs}"
            )
        time.sleep(POLL_INTERVAL_S)


def _get(connection: http.client.HTTPConnection, path: str) -> bytes | None:
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return body if answer.status == http.HTTPStatus.OK else None
