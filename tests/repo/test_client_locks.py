"""The clients that tests run are pinned by hash, and their locks name no registry."""

import json
import re
from pathlib import Path

import pytest

CLIENTS = Path(__file__).resolve().parents[1] / "clients"


@pytest.mark.parametrize("lock", ["requirements.txt", "node.txt"])
def test_a_python_lock_of_the_clients_is_hashed(lock) -> None:
    text = (CLIENTS / lock).read_text()
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", text)
    blocks = re.split(r"^(?=[A-Za-z0-9._-]+==)", text, flags=re.MULTILINE)[1:]
    assert blocks
    assert all("--hash=sha256:" in block for block in blocks)


def test_the_javascript_lock_of_the_clients_is_hashed() -> None:
    packages = json.loads((CLIENTS / "package-lock.json").read_text())["packages"]
    installed = {name: package for name, package in packages.items() if name}
    assert installed
    assert all(package["integrity"].startswith("sha512-") for package in installed.values())
    assert not any("resolved" in package for package in installed.values())
