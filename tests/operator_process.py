"""The whole operator as a process beside a real cluster, with the rights that the chart gives it."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import yaml
from eventually import eventually

from headrace_local.cluster import Cluster
from headrace_local.probe import ClusterError

REPOSITORY = Path(__file__).parents[1]
SYSTEM_NAMESPACE = "headrace-system"
START_TIMEOUT_S = 60.0
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


def is_served(cluster: Cluster) -> bool:
    try:
        cluster.kubectl("get", "infs", "-A")
    except ClusterError:
        return False
    return True


def install(cluster: Cluster) -> Cluster:
    """What the chart puts into a cluster, but for the operator itself."""
    metadata = {"name": SYSTEM_NAMESPACE}
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
    chart = str(REPOSITORY / "charts/headrace")
    rendered = cluster.helm("template", "headrace", chart, "-n", SYSTEM_NAMESPACE, "--kube-version", "1.34")
    objects = [found for found in yaml.safe_load_all(rendered) if found]
    cluster.apply([found for found in objects if found["kind"] in INSTALLED])
    eventually(lambda: is_served(cluster))
    return cluster


def account_file(cluster: Cluster, file: Path) -> Path:
    """A kubeconfig with the token of the operator's ServiceAccount: no more rights than the chart gives."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("-n", SYSTEM_NAMESPACE, "create", "token", "headrace-operator").strip()
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    file.write_text(yaml.safe_dump(config))
    return file


def through(account: Path, url: str, file: Path, *, token: str | None = None) -> Path:
    """A kubeconfig like the account's that leads to `url`, with `token` where given."""
    config = yaml.safe_load(account.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"] = {"server": url}
    if token is not None:
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    file.write_text(yaml.safe_dump(config))
    return file


@dataclass
class OperatorProcess:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
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
        self.process.wait(30)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

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


def launch_operator(account: Path, admin_key: Path, log: Path, **variables: str) -> OperatorProcess:
    """Starts an operator process; whoever starts it ends it."""
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
