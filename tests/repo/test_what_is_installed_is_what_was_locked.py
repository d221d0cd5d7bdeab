"""What others publish gets in by its hash, as a wheel, from one index, and nothing runs by itself when Python
starts.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted([*(ROOT / "requirements").glob("*.txt"), *(ROOT / "local").glob("*.txt")])
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(each for extra in extras for each in extra)]


def test_an_image_installs_by_hash_and_builds_no_strangers_package() -> None:
    """A dependency of a nightly build came from the wrong index, and ran while it was built."""
    strangers = [line for line in DOCKERFILE.splitlines() if re.search(r"pip .*install .*-r ", line)]
    assert len(strangers) >= 3
    assert all("--require-hashes" in line for line in strangers)
    assert "PIP_ONLY_BINARY=:all:" in DOCKERFILE
    assert not re.search(r"--(extra-)?index-url|--trusted-host", DOCKERFILE)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_line_of_a_lock_is_one_version_with_hashes(lock) -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.read_text().strip())
    pins = [entry for entry in entries if not entry.startswith("#")]
    assert pins
    loose = [
        entry.splitlines()[0]
        for entry in pins
        if not re.match(r"[A-Za-z0-9._-]+==[^ ;]+", entry) or "--hash=sha256:" not in entry
    ]
    assert loose == []


def test_nothing_of_ours_runs_when_python_starts() -> None:
    """A stolen release carried a `.pth` file, which ran in every Python beside it."""
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout: the files to look at are those that git tracks")
    assert [name for name in listing.stdout.splitlines() if name.endswith((".pth", "sitecustomize.py"))] == []


def test_metadata_has_floors_and_locks_have_pins() -> None:
    """An exact pin in the metadata kept a version with a known hole in every environment beside it."""
    names = [each for each in requirements() if not each.startswith("headrace[")]
    assert len(names) > 30
    assert [each for each in names if "==" in each.partition(";")[0] or ">=" not in each] == []


def test_every_lock_is_made_in_one_place_and_takes_nothing_younger_than_a_week() -> None:
    """A stolen release is mostly found out within days."""
    script = (ROOT / "local" / "lock").read_text()
    assert script.count("pip compile") == 1
    assert "--exclude-newer '7 days'" in script
    assert "--generate-hashes" in script
    made = re.findall(r"(?:^|\| )lock (\S+\.txt)", script, flags=re.MULTILINE)
    assert sorted(made) == [str(lock.relative_to(ROOT)) for lock in LOCKS if lock.stem != "node"]


def test_an_audit_looks_at_every_lock_and_fails_where_it_cannot() -> None:
    script = (ROOT / "local" / "audit").read_text()
    assert all(place in script for place in ('"$checkout"/requirements/*.txt', '"$checkout"/local/*.txt'))
    assert all(flag in script for flag in ("--strict", "--require-hashes", "--disable-pip"))
    assert "|| failed=1" in script
    assert script.rstrip().endswith('exit "$failed"')
