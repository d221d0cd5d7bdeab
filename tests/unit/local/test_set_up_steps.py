"""The steps of `local/bootstrap.sh`: what two checkouts share, and what is shown while one runs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# The real bootstrap, with installations that only leave their stamps.
BOOTSTRAP = """
set -euo pipefail
source "$1/local/bootstrap.sh"
preflight() { python=python3; mkdir -p "$cache/logs"; }
install_uv() { mkdir -p "$cache/uv"; echo "$uv_digest" >"$cache/uv/.stamp"; }
install_environment() {
  mkdir -p "$venv/bin"
  ln -sf "$(type -P true)" "$venv/bin/python"
  echo "$environment_digest" >"$venv/.stamp"
}
install_javascript_client() { ${NPM:-true}; mkdir -p "$(client_place package-lock.json)"; touch "$_/.stamp"; }
install_client_frameworks() { mkdir -p "$(client_place requirements.txt)"; touch "$_/.stamp"; }
bootstrap client test
echo ready
"""
LOCKS = ("package-lock.json", "requirements.txt", "node.txt")
CLIENTS = ["OpenAI's", "LangChain,"]


def checkout(place: Path) -> Path:
    names = ("local/bootstrap.sh", "local/uv.txt", "requirements/dev.txt", "pyproject.toml")
    for name in (*names, *(f"tests/clients/{lock}" for lock in LOCKS)):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, place / name)
    return place


def set_up(place: Path, cache: Path, **env: str) -> list[str]:
    """Runs the bootstrap; a word of each step that it took, and `stopped` if it did not come to its end."""
    done = subprocess.run(
        ["bash", "-c", BOOTSTRAP, "bash", str(place)],
        env={**os.environ, "CI": "", "HEADRACE_CACHE": str(cache), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    *steps, end = done.stdout.splitlines()
    assert (done.returncode == 0) == (end == "ready")
    return [line.split()[1] for line in (steps if end == "ready" else [*steps, end, "- stopped"])]


def test_a_second_checkout_makes_its_environment_and_takes_the_rest_from_the_cache(tmp_path: Path) -> None:
    first, second = checkout(tmp_path / "first"), checkout(tmp_path / "second")
    assert set_up(first, tmp_path / "cache") == ["uv", "virtual", *CLIENTS]
    assert set_up(second, tmp_path / "cache") == ["virtual"]
    assert set_up(first, tmp_path / "cache") == []


def test_a_changed_lock_makes_the_environment_again(tmp_path: Path) -> None:
    place = checkout(tmp_path / "checkout")
    set_up(place, tmp_path / "cache")
    with (place / "requirements" / "dev.txt").open("a") as lock:
        lock.write("# changed\n")
    assert set_up(place, tmp_path / "cache") == ["virtual"]


def test_a_client_that_cannot_be_had_ends_the_set_up_in_ci_alone(tmp_path: Path) -> None:
    place, cache = checkout(tmp_path / "checkout"), tmp_path / "cache"
    assert set_up(place, cache, NPM="false") == ["uv", "virtual", *CLIENTS]
    assert set_up(place, cache, NPM="false", CI="true") == ["OpenAI's", "stopped"]
    assert set_up(place, cache) == ["OpenAI's"]
    assert set_up(place, cache, CI="true") == []


def test_a_step_that_runs_shows_for_how_long_and_no_longer_than_its_script_lives() -> None:
    script = 'source "$1/local/bootstrap.sh"; tick "slow work" $(($(now_ms) - 3000)) & read -r; exit'
    with subprocess.Popen(
        ["bash", "-c", script, "bash", str(ROOT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shown = b""
        while "… slow work  3 s".encode() not in shown:
            shown += os.read(shell.stdout.fileno(), 4096) or pytest.fail(f"the end, after {shown!r}")
        shell.stdin.close()
        shell.wait()
        shell.stdout.read()  # returns once the last writer has ended
