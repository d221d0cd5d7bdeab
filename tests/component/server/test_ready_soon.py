"""`headrace serve` is ready after little work, and neither of its processes loads what it does not need."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.served_engine import Served, eventually

READY_CPU_S = 8.0
"""Of processor time, not of the clock: a test machine is shared."""
HEAVY = {
    "transformers",
    "torch._dynamo",
    "torch._inductor",
    "sympy",
    "gguf",
    "opentelemetry.sdk.trace",
    "kopf",
}
HTTPS_OWN = {"uvicorn", "tokenizers", "headrace_engine.server.app"}
CORES_OWN = {"torch", "headrace_engine.runner.model_runner"}


def test_it_is_ready_within_eight_seconds_of_work(tiny_model_dir) -> None:
    served = Served(tiny_model_dir)
    try:
        eventually(lambda: served.told("ready"), timeout_s=90)
        assert served.get("/readyz") == 200
        core = served.core_pid()
        assert cpu_s(served.http.pid) + cpu_s(core) < READY_CPU_S
        assert "libtorch" in maps(core)
        assert "libtorch" not in maps(served.http.pid)
    finally:
        served.http.send_signal(signal.SIGTERM)
        assert served.ended(30) == 0


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
