"""The whole operator as a process beside a real control plane, and pods that a test plays the kubelet for."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from headrace_local.cluster import Cluster
from headrace_local.probe import ClusterError

REPOSITORY = Path(__file__).parents[3]
SYSTEM_NAMESPACE = "headrace-system"
START_TIMEOUT_S = 20.0
INSTALLED = {
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


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
    """The control plane with what the chart puts there, but for the operator itself."""
    metadata = {"name": SYSTEM_NAMESPACE}
    control_plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
    chart = str(REPOSITORY / "charts/headrace")
    rendered = control_plane.helm(
        "template", "headrace", chart, "-n", SYSTEM_NAMESPACE, "--kube-version", "1.34"
    )
    objects = [found for found in yaml.safe_load_all(rendered) if found]
    control_plane.apply([found for found in objects if found["kind"] in INSTALLED])
    wait_for(lambda: is_served(control_plane))
    return control_plane


@pytest.fixture(scope="session")
def account(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with the token of the operator's ServiceAccount: no more rights than the chart gives."""
    config = yaml.safe_load(installed.kubeconfig.read_text())
    token = installed.kubectl("-n", SYSTEM_NAMESPACE, "create", "token", "headrace-operator").strip()
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    file = tmp_path_factory.mktemp("account") / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


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


@pytest.fixture(scope="session")
def launch(account: Path, admin_key: Path) -> Callable[..., OperatorProcess]:
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
            "KUBECONFIG": str(account),
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
    """Starts an operator that watches the test's namespace; all of a test share one lease."""
    started: list[OperatorProcess] = []

    def start(*, ready: bool = True, **variables: str) -> OperatorProcess:
        own = {"WATCH_NAMESPACES": namespace.name, "POD_NAME": f"operator-{len(started)}"}
        operator = launch(tmp_path / f"operator-{len(started)}.log", **own, **variables)
        started.append(operator)
        if ready:
            operator.wait_ready()
        return operator

    yield start
    for operator in started:
        operator.end()
    namespace.cluster.kubectl("-n", SYSTEM_NAMESPACE, "delete", "lease", "--all")


@pytest.fixture(scope="module")
def operator(
    launch: Callable[..., OperatorProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """One operator for a module's tests, over the whole cluster."""
    operator = launch(tmp_path_factory.mktemp("operator") / "operator.log")
    operator.wait_ready()
    yield operator
    operator.stop()
    operator.end()
