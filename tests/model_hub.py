"""A hub on loopback that speaks the protocol of huggingface.co, and does what it is told to do wrong."""

import hashlib
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """`files` of the one repository `org/name`; every request is kept with the token that came along."""

    files: dict[str, bytes]
    token: str | None = None
    """Asked of every request, where there is one."""
    gated: bool = False
    down: bool = False
    cut: set[str] = field(default_factory=set)
    """Files of which only a part is sent."""
    swapped: set[str] = field(default_factory=set)
    """Files that come with other bytes than announced."""
    elsewhere: str | None = None
    """Another host, which weights are redirected to."""
    api_elsewhere: str | None = None
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    url: str = ""

    def body(self, name):
        data = self.files[name]
        return bytes(len(data)) if name in self.swapped else data

    def siblings(self):
        for name, data in self.files.items():
            entry = {"rfilename": name, "size": len(data)}
            if name.endswith(".safetensors"):
                sha256 = hashlib.sha256(data).hexdigest()
                entry["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 130}
            else:
                entry["blobId"] = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
            yield entry

    def downloaded(self):
        return {path.rsplit("/", 1)[1] for method, path, _ in self.requests if "/resolve/" in path}

    @contextmanager
    def running(self, address="127.0.0.1"):
        server = ThreadingHTTPServer((address, 0), _handler(self))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.url = f"http://{address}:{server.server_address[1]}"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _handler(hub):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            token = self.headers.get("Authorization")
            hub.requests.append((self.command, self.path, token))
            path = self.path.partition("?")[0]
            if hub.down:
                self.answer(503, b"")
            elif hub.token and token != f"Bearer {hub.token}":
                code = "GatedRepo" if hub.gated else "RepoNotFound"
                self.answer(403 if hub.gated else 401, b"", {"X-Error-Code": code})
            elif path.startswith("/api/models/"):
                self.api(path)
            else:
                self.file(path)

        def api(self, path):
            revision = path.partition("/revision/")[2] or "main"
            if hub.api_elsewhere:
                self.answer(307, b"", {"Location": f"{hub.api_elsewhere}{self.path}"})
            elif not path.startswith("/api/models/org/name"):
                self.answer(404, b"", {"X-Error-Code": "RepoNotFound"})
            elif revision not in {"main", COMMIT}:
                self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
            else:
                document = {"id": "org/name", "sha": COMMIT, "siblings": list(hub.siblings())}
                self.answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

        def file(self, path):
            name = path.rsplit("/", 1)[1]
            data = hub.body(name)
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha1(hub.files[name]).hexdigest()}"'}
            if hub.elsewhere and name.endswith(".safetensors"):
                headers |= {"Location": f"{hub.elsewhere}{self.path}", "X-Linked-Size": str(len(data))}
                headers["X-Linked-ETag"] = headers["ETag"]
                self.answer(302, b"", headers)
            else:
                self.answer(200, data, headers, cut=name in hub.cut)

        def answer(self, status, body, headers=None, *, cut=False):
            self.send_response(status)
            for key, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body[: len(body) // 2] if cut else body)
                self.close_connection = cut

    return Handler
