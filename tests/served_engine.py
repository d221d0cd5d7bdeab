"""`headrace serve` as a command, with the smallest real model: its two processes, its log, its API."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import openai
from eventually import eventually

from headrace_engine.link.child import CHILD

ASKED = {"model": "tiny", "prompt": "Once", "max_tokens": 400, "temperature": 0}
FOR_LONG = {"ignore_eos": True}


class Served:
    """A `headrace serve` of the smallest real model."""

    def __init__(self, model: Path) -> None:
        flags = ["--port", "0", "--threads", "1", "--served-model-name", "tiny", "--max-num-seqs", "4"]
        command = [sys.executable, "-m", "headrace_cli.main", "serve", str(model), *flags]
        self.http = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.lines: list[dict] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = eventually(lambda: self.told("listening"))["api"]

    def _read(self) -> None:
        self.lines.extend(json.loads(line) for line in self.http.stderr)

    def told(self, message: str) -> dict | None:
        """The first log line of this kind."""
        return next((line for line in list(self.lines) if line["message"] == message), None)

    def core_pid(self) -> int:
        return eventually(lambda: next(iter(cores_of(self.http.pid)), None))

    def ended(self, timeout_s: float = 60.0) -> int:
        code = self.http.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def stream(self) -> openai.Stream:
        client = openai.OpenAI(base_url=self.url, api_key="none", max_retries=0, timeout=60)
        return client.completions.create(**ASKED, stream=True, extra_body=FOR_LONG)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url.removesuffix("/v1") + path, timeout=60)


def cores_of(pid: int) -> list[int]:
    """The engine cores among the children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_text()
        except (OSError, ValueError):
            continue
        if int(state[1]) == pid and CHILD in command:
            found.append(int(entry.name))
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
