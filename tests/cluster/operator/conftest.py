"""The whole operator as a process beside a real control plane, and pods that a test plays the kubelet for."""

import hashlib
import itertools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from headrace_local.cluster import Cluster
from headrace_local.probe import ClusterError

REPOSITORY = Path(__file__).parents[3]
SYSTEM_NAMESPACE = "headrace-system"
START_TIMEOUT_S = 20.0
_ADDRESSES = itertools.count(10)


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Any]:
    """`eventually(check)`: what `check` returns once that is true and no AssertionError is raised."""
    return wait_for


def wait_for(check: Callable[[], Any], *, within_s: float = 20.0) -> Any:
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            found = check()
            if found or time.monotonic() > deadline_s:
                assert found, "it did not come true in time"
                return found
        except AssertionError:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(0.2)


def is_served(cluster: Cluster) -> bool:
    try:
        cluster.kubectl("get", "infs", "-A")
    except ClusterError:
        return False
    return True


@dataclass
class OperatorProcess:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=2) as answer:
            return answer.read().decode()

    def metric(self, name: str) -> float:
        """The sum over all series of the metric."""
        lines = [
            line for line in self.get("/metrics").splitlines() if line.startswith((f"{name} ", f"{name}{{"))
        ]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    @property
    def leads(self) -> bool:
        return self.metric("headrace_operator_leader") == 1

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(5)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def end(self) -> None:
        if self.process.poll() is None:
            self.kill()
        print(f"--- {self.log.name}\n{self.log.read_text()}")

    def wait_ready(self) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            assert self.process.poll() is None, self.log.read_text()
            try:
                self.get("/readyz")
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError(f"not ready in time:\n{self.log.read_text()}")


@dataclass
class Namespace:
    """One test's own namespace."""

    cluster: Cluster
    name: str

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.name, *arguments, stdin=stdin)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text else None

    def find(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        return json.loads(self.kubectl("get", kind, "-l", selector, "-o", "json"))["items"]

    def apply(self, *manifests: dict[str, Any]) -> None:
        stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
        self.kubectl("apply", "-f", "-", stdin=stdin)

    def patch(self, kind: str, name: str, patch: dict[str, Any], *more: str) -> None:
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch), *more)

    def condition(self, name: str, type_: str) -> dict[str, Any] | None:
        status = (self.get("infs", name) or {}).get("status") or {}
        return next((found for found in status.get("conditions", []) if found["type"] == type_), None)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.find("events") if event["involvedObject"]["name"] == name]

    def run_pod(self, pod: dict[str, Any], *, ip: str) -> None:
        """What the kubelet would report of a pod whose engine runs and is ready."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = [
            {"type": type_, "status": "True", "lastTransitionTime": now}
            for type_ in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        container = {
            "name": pod["spec"]["containers"][0]["name"],
            "image": "stub",
            "imageID": "stub",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        status = {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "startTime": now,
            "conditions": conditions,
            "containerStatuses": [container],
        }
        self.patch("pod", pod["metadata"]["name"], {"status": status}, "--subresource=status")


@pytest.fixture(scope="session")
def service() -> Callable[..., dict[str, Any]]:
    """`service(name)`: an InferenceService of the fewest words; keywords replace parts of its spec."""

    def manifest(name: str = "chat", **spec: Any) -> dict[str, Any]:
        least = {"model": {"uri": "file:///models/tiny"}, "slo": {"ttft": "1s", "window": "30s"}}
        return {
            "apiVersion": "headrace.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": name},
            "spec": {**least, **spec},
        }

    return manifest


@pytest.fixture(scope="session")
def installed(control_plane: Cluster) -> Cluster:
    """The control plane with our resource and the operator's namespace."""
    control_plane.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "crds"))
    wait_for(lambda: is_served(control_plane))
    control_plane.kubectl("create", "namespace", SYSTEM_NAMESPACE)
    return control_plane


@pytest.fixture
def namespace(installed: Cluster) -> Iterator[Namespace]:
    name = f"t-{secrets.token_hex(4)}"
    installed.kubectl("create", "namespace", name)
    yield Namespace(installed, name)
    installed.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def admin_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("key") / "admin.pem"
    key = Ed25519PrivateKey.generate()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return file


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


@pytest.fixture(scope="session")
def launch(installed: Cluster, admin_key: Path) -> Callable[..., OperatorProcess]:
    """Starts an operator process; whoever starts it ends it."""

    def start(log: Path, **variables: str) -> OperatorProcess:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = {
            "ENGINE_IMAGE": "headrace.local/engine:dev",
            "ADMIN_KEY_FILE": str(admin_key),
            "LEASE_NAMESPACE": SYSTEM_NAMESPACE,
            "LEASE_DURATION_S": "5",
            "HTTP_HOST": "127.0.0.1",
            "HTTP_PORT": str(port),
            "RECONCILE_INTERVAL_S": "1",
            "SCRAPE_INTERVAL_S": "0.5",
            "KUBECONFIG": str(installed.kubeconfig),
            **variables,
        }
        environment = os.environ | {f"HEADRACE_OPERATOR_{name}": value for name, value in settings.items()}
        command = [str(Path(sys.executable).with_name("headrace")), "operator", "run"]
        with log.open("wb") as output:
            process = subprocess.Popen(command, env=environment, stderr=output, stdout=output)
        return OperatorProcess(process, port, log)

    return start


@pytest.fixture
def start_operator(
    launch: Callable[..., OperatorProcess], namespace: Namespace, tmp_path: Path
) -> Iterator[Callable[..., OperatorProcess]]:
    """Starts an operator that watches the test's namespace, with a lease of the test's own."""
    started: list[OperatorProcess] = []

    def start(*, ready: bool = True, **variables: str) -> OperatorProcess:
        own = {
            "WATCH_NAMESPACES": namespace.name,
            "LEASE_NAME": f"lease-{namespace.name}",
            "POD_NAME": f"operator-{len(started)}",
        }
        operator = launch(tmp_path / f"operator-{len(started)}.log", **own, **variables)
        started.append(operator)
        if ready:
            operator.wait_ready()
        return operator

    yield start
    for operator in started:
        operator.end()


@pytest.fixture(scope="module")
def operator(
    launch: Callable[..., OperatorProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """One operator for a module's tests, over the whole cluster."""
    operator = launch(tmp_path_factory.mktemp("operator") / "operator.log")
    operator.wait_ready()
    yield operator
    operator.end()
