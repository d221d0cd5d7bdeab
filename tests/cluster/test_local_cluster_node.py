"""Pods run on the node, find each other by name and Service, and see of the machine only what they should."""

import json
import platform
import time
import urllib.request

import pytest

from headrace_local.cluster import Cluster
from headrace_local.containerd import DEV_RUNTIME
from headrace_local.dev_runtime import ENGINE_IMAGE
from headrace_local.oci import Image, Layer, write_archive
from headrace_local.probe import ClusterError

pytestmark = [pytest.mark.cluster, pytest.mark.node]

SERVE_TORCH = """
import http.server, torch
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(torch.arange(4).sum().item()).encode())
http.server.HTTPServer(("", 8000), Answer).serve_forever()
"""
FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())"


@pytest.fixture(scope="module")
def served(cluster: Cluster, pod_manifest) -> str:
    """A Service whose pod imports torch; returns its address."""
    probe = {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1}
    container = {
        "name": "main",
        "image": ENGINE_IMAGE,
        "command": ["python", "-c", SERVE_TORCH],
        "readinessProbe": probe,
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "sum", "namespace": "default"},
        "spec": {"selector": {"app": "summing"}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
    cluster.apply([service])
    pod = pod_manifest("summing", container=container, runtimeClassName=DEV_RUNTIME)
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/summing", "--timeout=180s")
    return cluster.kubectl("get", "service", "sum", "-o", "jsonpath={.spec.clusterIP}")


@pytest.fixture
def shell(run_pod) -> str:
    """A pod with a Python to run things in."""
    return run_pod("shell", container={"command": ["sleep", "600"]}, runtimeClassName=DEV_RUNTIME)


def test_a_service_answers_a_program_of_the_machine(served: str):
    assert _fetch(f"http://{served}/") == b"6"


def test_a_service_answers_a_pod_by_its_name(cluster: Cluster, served: str, shell: str):
    for name in ("sum", "sum.default", "sum.default.svc.cluster.local"):
        assert cluster.kubectl("exec", shell, "--", "python", "-c", FETCH, f"http://{name}/").strip() == "6"


def test_a_pod_that_asks_its_own_service_gets_an_answer(cluster: Cluster, served: str):
    assert cluster.kubectl("exec", "summing", "--", "python", "-c", FETCH, f"http://{served}/").strip() == "6"


def test_the_engine_s_pod_runs_the_checkout_s_command_as_nobody(cluster: Cluster, shell: str):
    assert "Usage" in cluster.kubectl("exec", shell, "--", "headrace", "--help")
    assert cluster.kubectl("exec", shell, "--", "id", "-u").strip() == "65532"


@pytest.mark.parametrize("path", ["/new", "/usr/new", "/usr/local/new"])
def test_the_engine_s_pod_cannot_write_what_it_sees_of_the_machine(cluster: Cluster, shell: str, path: str):
    with pytest.raises(ClusterError, match="Read-only file system"):
        cluster.kubectl("exec", shell, "--", "touch", path)


def test_a_pod_of_the_plain_runtime_sees_nothing_of_the_machine(cluster: Cluster, pod_manifest):
    pod = pod_manifest("plain", container={"command": ["python"]})
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    waiting = "jsonpath={.status.containerStatuses[0].lastState.terminated.message}"
    _until(lambda: "executable file not found" in cluster.kubectl("get", "pod", "plain", "-o", waiting))
    cluster.kubectl("delete", "pod", "plain", "--force", "--grace-period=0")


def test_an_image_archive_runs_without_a_registry(cluster: Cluster, run_pod, tmp_path):
    program = cluster.binaries["pause"].read_bytes()
    image = Image(
        "headrace.local/waits:1", Layer(files={"/waits": (program, 0o755)}), ["/waits"], user="65532"
    )
    archive = write_archive(image, platform.machine(), tmp_path / "waits.tar")
    assert cluster.load_image(archive) == ["headrace.local/waits:1"]
    run_pod("waiting", container={"image": "headrace.local/waits:1"})


def test_what_is_no_image_archive_is_refused(cluster: Cluster, tmp_path):
    (tmp_path / "no.tar").write_bytes(b"no archive")
    with pytest.raises(ClusterError, match="no image archive"):
        cluster.load_image(tmp_path / "no.tar")


def test_models_are_a_bound_claim_that_not_even_root_can_write(cluster: Cluster, run_pod, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    (models / "weights").write_text("1 2 3")
    # The parents of a pod's volume need not be readable: the volume itself must be.
    tmp_path.chmod(0o700)
    cluster.provide_models(models, claim="weights")

    volumes = [{"name": "models", "persistentVolumeClaim": {"claimName": "weights"}}]
    container = {
        "command": ["sleep", "600"],
        "securityContext": {"runAsUser": 0, "runAsNonRoot": False},
        "volumeMounts": [{"name": "models", "mountPath": "/models"}],
    }
    pod = run_pod("reading", container=container, volumes=volumes, runtimeClassName=DEV_RUNTIME)
    assert cluster.kubectl("exec", pod, "--", "cat", "/models/weights") == "1 2 3"
    with pytest.raises(ClusterError, match="Read-only file system"):
        cluster.kubectl("exec", pod, "--", "touch", "/models/more")


def test_logs_reach_the_user_through_the_api_server(cluster: Cluster, run_pod):
    command = ["sh", "-c", "echo hello; sleep 600"]
    pod = run_pod("talking", container={"command": command}, runtimeClassName=DEV_RUNTIME)
    _until(lambda: cluster.kubectl("logs", pod) == "hello\n")


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


def _until(met, timeout_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline_s, "not met in time"
        time.sleep(0.2)
