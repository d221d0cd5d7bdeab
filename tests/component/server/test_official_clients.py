"""One script of cases, run unchanged by OpenAI's official clients: two major versions for Python, each sync
and async, and the one for JavaScript.

A client runs in a process of its own and tells what it saw; the cases say what it should have seen.
"""

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from clients import installed

from headrace_engine.core.policies import PolicyName

HERE = Path(installed.__file__).parent
CASES = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
CLIENTS = ("python", "python-2", "javascript", "javascript-6")
CUE = b"Recite: "
SONG = CUE + "Grüße! Привет, 世界 👨‍👩‍👧 naïve 🇫🇷 ﷽ “ok” é\n\ttab".encode()
END, CONTROL = 256, 256
GOOD_KEY = "a-good-key"


class Reciter:
    """The alphabet, and a song of many scripts: its context's last bytes say where in the song it is."""

    def __init__(self, alphabet: Any) -> None:
        self._alphabet = alphabet

    def run(self, plan: Any) -> Any:
        outcome = self._alphabet.run(plan)
        sung = {row.request_id: self._sung(row) for row in plan.rows if row.sampled_rows}
        return replace(outcome, sampled={name: sung[name] or ids for name, ids in outcome.sampled.items()})

    def _sung(self, row: Any) -> list[int]:
        cache, slot = self._alphabet.cache, self._alphabet._slot
        end = row.start + len(row.token_ids)
        last = [cache[slot(row, position)] for position in range(max(0, end - len(CUE) - 1), end)]
        heard = bytes(token for token in last if token < CONTROL)[-len(CUE) :]
        at = SONG.find(heard)
        if len(heard) < len(CUE) or at < 0:
            return []
        return [SONG[at + len(CUE)] if at + len(CUE) < len(SONG) else END]


def sings(model: Any) -> Any:
    return replace(model, runner=Reciter(model.runner))


def servers_of_one_client(run_server, keys: Path) -> dict[str, Any]:
    return {
        "open": run_server(load=sings, served_model_names=("alphabet", "org/alphabet")),
        "slow": run_server(step_s=0.01, max_model_len=4096, num_blocks=4096),
        "busy": run_server(step_s=0.01, max_num_seqs=1, max_num_queued_reqs=1),
        "keyed": run_server(api_keys=keys),
        "classes": run_server(scheduling_policy=PolicyName.PRIORITY),
    }


def command_of(client: str) -> list[str]:
    match client:
        case "javascript" | "javascript-6":
            package, least = ("openai", 22) if client == "javascript" else ("openai-6", 20)
            place = installed.javascript_client(package)
            return [str(installed.node(least)), str(HERE / "openai_client.mjs"), str(place)]
        case "python-2":
            return [str(installed.frameworks_python()), str(HERE / "openai_client.py")]
        case _:
            return [sys.executable, str(HERE / "openai_client.py")]


@dataclass
class Run:
    """A client at work on the cases, against servers of its own."""

    servers: dict[str, Any]
    process: subprocess.Popen[str] | installed.NotInstalledError
    lines: dict[str, dict[str, Any]] = field(default_factory=dict)

    def finish(self) -> None:
        if isinstance(self.process, installed.NotInstalledError):
            installed.leave_out(self.process)
        if not self.lines:
            told, errors = self.process.communicate(timeout=300)
            assert self.process.returncode == 0, errors[-4000:]
            self.lines = {case["name"]: {} for case in CASES}
            for line in map(json.loads, told.splitlines()):
                self.lines[line["case"]][line["way"]] = line["saw"]


@pytest.fixture(scope="module")
def runs(run_server, tmp_path_factory) -> dict[str, Run]:
    """All clients at once: most of their time is waiting."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(json.dumps({"keys": {hashlib.sha256(GOOD_KEY.encode()).hexdigest(): "acme"}}))
    runs = {}
    for client in CLIENTS:
        try:
            program, script, *rest = command_of(client)
        except installed.NotInstalledError as missing:
            runs[client] = Run({}, missing)
            continue
        servers = servers_of_one_client(run_server, keys)
        urls = json.dumps({name: server.url for name, server in servers.items()})
        command = [program, script, str(HERE / "cases.json"), urls, *rest]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        runs[client] = Run(servers, subprocess.Popen(command, text=True, encoding="utf-8", **pipes))
    return runs


@pytest.fixture(scope="module", params=CLIENTS)
def run(request, runs) -> Run:
    runs[request.param].finish()
    return runs[request.param]


def difference(expected: Any, saw: Any, where: str = "") -> list[str]:
    """Where `saw` is not what was expected. What nothing was expected of may be anything."""
    if isinstance(expected, dict) and isinstance(saw, dict):
        return [
            found
            for name, value in expected.items()
            for found in difference(value, saw.get(name), f"{where}.{name}")
        ]
    return [] if expected == saw else [f"{where}: {saw!r}, not {expected!r}"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_an_official_client_sees_what_it_expects(run, case) -> None:
    ways = run.lines[case["name"]]
    assert len(ways) >= len(case.get("ways", ["whole", "stream"]))
    assert {way: found for way, saw in ways.items() if (found := difference(case["expect"], saw))} == {}


def test_whatever_a_client_did_nothing_of_it_stays_in_the_engine(run) -> None:
    for server in run.servers.values():
        server.eventually(lambda server=server: server.metric("headrace_in_flight") == 0)
        assert server.metric("vllm:kv_cache_usage_perc") == 0
    assert run.servers["slow"].metric("headrace_requests_aborted_total") >= 2
