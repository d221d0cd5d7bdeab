"""`headrace serve` is ready after little work, and loads nothing that serving does not need."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

READY_CPU_S = 8.0
"""Of processor time, not of the clock: a test machine is shared."""
HEAVY = (
    "transformers",
    "torch._dynamo",
    "torch._inductor",
    "sympy",
    "gguf",
    "opentelemetry.sdk.trace",
    "kopf",
)


def test_it_is_ready_within_eight_seconds_of_work_and_listens_at_its_port_alone(tiny_model_dir) -> None:
    """Elsewhere a broker beside the API listened too (CVE-2026-3059)."""
    command = [sys.executable, "-m", "headrace_cli.main", "serve", str(tiny_model_dir), "--threads", "1"]
    server = subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        url = (
            next(line for line in server.stderr if '"listening"' in line).split('"api":"')[1].split("/v1")[0]
        )
        threading.Thread(target=server.stderr.read, daemon=True).start()
        until = time.monotonic() + 90
        while not ready(url):
            assert time.monotonic() < until
            time.sleep(0.03)
        assert cpu_s(server.pid) < READY_CPU_S
        assert ports_of(server.pid) == {int(url.rpartition(":")[2])}
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0


def test_what_is_loaded_until_then_is_what_serving_needs(tiny_model_dir) -> None:
    code = (
        "import sys\n"
        "import headrace_engine.server.main\n"
        "from headrace_engine.server.config import ServeConfig\n"
        "from headrace_engine.server.loading import load_model\n"
        f"load_model(ServeConfig(model={str(tiny_model_dir)!r}, threads=1))\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(done.stdout.split())


def ready(url: str) -> bool:
    try:
        return urllib.request.urlopen(url + "/readyz", timeout=5).status == 200
    except urllib.error.HTTPError:
        return False


def cpu_s(pid: int) -> float:
    """User and kernel time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ports_of(pid: int) -> set[int]:
    """Where a process and all that it started listen."""
    process = Path(f"/proc/{pid}")
    sockets = {str(entry.readlink()) for entry in (process / "fd").iterdir()}
    rows = [
        row.split() for name in ("tcp", "tcp6") for row in (process / "net" / name).read_text().splitlines()
    ]
    own = {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == "0A" and f"socket:[{row[9]}]" in sockets
    }
    children = [
        int(child)
        for task in (process / "task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return own.union(*map(ports_of, children))
