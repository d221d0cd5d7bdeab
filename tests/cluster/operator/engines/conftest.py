"""Stub engines at addresses of their own: what the operator scrapes and calls in place of real pods."""

import hashlib
import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from headrace_local.cluster import Cluster

_ADDRESSES = itertools.count(10)


class StubEngine:
    """An engine as the operator sees it: metrics on 8000, admin port on 8001, an address of its own."""

    def __init__(self, ip: str, public_keys: dict[str, Any]) -> None:
        self.ip = ip
        self.public_keys = public_keys
        self.metrics = {"headrace_requests_received_total": 0.0}
        self.limits = {"max_num_seqs": 256, "max_num_batched_tokens": 8192}
        self.scrapes = 0
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self._servers = [ThreadingHTTPServer((ip, port), self._handler()) for port in (8000, 8001)]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def exposition(self) -> str:
        limits = {f'headrace_limit{{name="{name}"}}': value for name, value in self.limits.items()}
        return "".join(f"{name} {value}\n" for name, value in {**self.metrics, **limits}.items())

    def admin(self, method: str, path: str, token: str, body: bytes) -> dict[str, Any]:
        """The reply to a call whose signature holds for this very call."""
        header = jwt.get_unverified_header(token)
        claims = jwt.decode(
            token, self.public_keys[header["kid"]], algorithms=["EdDSA"], options={"verify_aud": False}
        )
        assert (claims["htm"], claims["htu"]) == (method, path)
        self.calls.append((method, path, claims | {"body": json.loads(body or b"null")}))
        if method == "PATCH":
            self.limits |= json.loads(body)
        return {"limits": self.limits, "draining": path.endswith("drain")}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/metrics":
                    engine.scrapes += 1
                    self._reply(engine.exposition().encode())
                else:
                    self._admin()

            def _admin(self) -> None:
                token = self.headers["Authorization"].removeprefix("Bearer ")
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self._reply(json.dumps(engine.admin(self.command, self.path, token, body)).encode())

            do_PATCH = do_POST = _admin

            def _reply(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("ETag", '"1"')
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@pytest.fixture
def start_engine(installed: Cluster, admin_key: Path) -> Iterator[Callable[..., StubEngine]]:
    """Starts stub engines, each at an address that the operator can reach."""
    private = load_pem_private_key(admin_key.read_bytes(), password=None)
    raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    public_keys = {hashlib.sha256(raw).hexdigest()[:16]: private.public_key()}
    host = installed.addresses.host
    shown = subprocess.run(["ip", "-json", "addr", "show", "to", str(host)], check=True, capture_output=True)
    link = next(entry["ifname"] for entry in json.loads(shown.stdout) if entry)
    started: list[StubEngine] = []

    def start() -> StubEngine:
        # Never an address that a pod of an earlier test had: the operator may not know yet that it is gone.
        ip = str(host + next(_ADDRESSES))
        subprocess.run(["ip", "addr", "replace", f"{ip}/32", "dev", link], check=True)
        started.append(StubEngine(ip, public_keys))
        return started[-1]

    yield start
    for engine in started:
        engine.close()
        subprocess.run(["ip", "addr", "del", f"{engine.ip}/32", "dev", link], check=False)
