"""`headrace serve` is ready after little work, and neither of its processes loads what it does not need."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from eventually import eventually
from tests.served_engine import Served

READY_CPU_S = 40.0
"""Of processor time, not of the clock, and many times what it takes, about 2 s: test machines differ."""
HEAVY = {
    "transformers",
    "torch._dynamo",
    "torch._inductor",
    "sympy",
    "gguf",
    "opentelemetry.sdk.trace",
    "kopf",
}
HTTPS_OWN = {"uvicorn", "starlette", "jwt", "tokenizers", "headrace_engine.server.app"}
CORES_OWN = {"torch", "headrace_engine.runner.model_runner"}


def test_it_is_ready_after_little_work_and_listens_at_its_port_alone(tiny_model_dir) -> None:
    """Elsewhere a broker beside the API listened too (CVE-2026-3059)."""
    served = Served(tiny_model_dir)
    try:
        eventually(lambda: served.told("ready"), within_s=90)
        assert served.get("/readyz").status_code == 200
        core = served.core_pid()
        assert cpu_s(served.http.pid) + cpu_s(core) < READY_CPU_S
        assert ports_of(served.http.pid) == {urlsplit(served.url).port}
        assert "libtorch" in maps(core)
        assert "libtorch" not in maps(served.http.pid)
    finally:
        served.http.send_signal(signal.SIGTERM)
        assert served.ended() == 0


def test_the_core_loads_no_http(tiny_model_dir) -> None:
    loaded = modules_after(
        "import headrace_engine.link.core\n"
        "from headrace_engine.server.config import ServeConfig\n"
        "from headrace_engine.server.loading import load_runner\n"
        f"load_runner(ServeConfig(model={str(tiny_model_dir)!r}, threads=1), print)\n"
    )
    assert loaded >= CORES_OWN
    assert not loaded & (HEAVY | HTTPS_OWN)


def test_http_loads_no_torch(tiny_model_dir) -> None:
    loaded = modules_after(
        "from pathlib import Path\n"
        "import headrace_engine.server.main\n"
        "from headrace_engine.link.hosts import ProcessHost\n"
        "from headrace_engine.server.config import ServeConfig\n"
        f"ProcessHost(ServeConfig(model='m'), 'INFO').tokenizer(Path({str(tiny_model_dir)!r}))\n"
    )
    assert loaded >= HTTPS_OWN
    assert not loaded & (HEAVY | CORES_OWN)


def modules_after(code: str) -> set[str]:
    """What an interpreter has loaded that ran this."""
    code += "import sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def maps(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


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
