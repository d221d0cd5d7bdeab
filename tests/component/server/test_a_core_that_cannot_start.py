"""No process for the core, or one that ends or hangs before it says a word: HTTP says why, and ends."""

import asyncio
import os
from pathlib import Path

import pytest

from headrace_engine.core.limits import Limits
from headrace_engine.link import hosts
from headrace_engine.link.hosts import ProcessHost
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.http_limits import HttpLimits
from headrace_engine.server.http_server import listen
from headrace_engine.server.serve import EngineProcess

CONFIG = ServeConfig(model="none")
ATTEMPTS = 4


def serve_with(host: ProcessHost, *, leave_after_s: float | None = None) -> int:
    async def run() -> int:
        process = EngineProcess(
            *(CONFIG, Limits(4, 16), host),
            serving_socket=listen("127.0.0.1", 0),
            http_limits=HttpLimits(),
        )
        if leave_after_s is not None:
            asyncio.get_running_loop().call_later(leave_after_s, process.terminate)
        return await process.run()

    return asyncio.run(run())


def interpreter(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def num_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "No such file"),
        ("exit 3", "exit code 3"),
        ("kill -SEGV $$", "SIGSEGV"),
        ("kill -KILL $$", "memory"),
    ],
    ids=["not there", "ends", "crashes", "is killed"],
)
def test_it_is_the_reason_that_http_ends_with(monkeypatch, tmp_path, caplog, script, reason) -> None:
    path = tmp_path / "python"
    monkeypatch.setattr(hosts.sys, "executable", interpreter(path, script) if script else str(path))
    open_files = []
    for _ in range(ATTEMPTS):
        assert serve_with(ProcessHost(CONFIG, "INFO")) == 1
        open_files.append(num_open_files())
    reasons = [vars(record).get("reason", "") for record in caplog.records]
    assert sum(reason in told for told in reasons) == ATTEMPTS
    # From the second on: the first may close what earlier tests had left open.
    assert open_files[-1] <= open_files[1]


def test_one_that_hangs_while_it_loads_does_not_keep_http(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(hosts.sys, "executable", interpreter(tmp_path / "python", "exec sleep 600"))
    host = ProcessHost(CONFIG, "INFO")
    assert serve_with(host, leave_after_s=0.02) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(host.pid, 0)
