"""One attacked server for all tests of this directory."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacked_server import AttackedServer


@pytest.fixture(scope="session")
def target(tiny_model_dir: Path) -> Iterator[AttackedServer]:
    script = Path(__file__).with_name("target.py")
    with subprocess.Popen(
        [sys.executable, str(script), str(tiny_model_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield AttackedServer(process, process.stdout.readline().strip())
        process.terminate()
