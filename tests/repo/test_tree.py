"""What holds for every file of the repository."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_FILE_LINES = 400
SOURCE_SUFFIXES = {".py", ".go", ".c", ".sh", ".cu"}
BINARY_SUFFIXES = {".png", ".gif", ".ico"}


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout: the files to look at are those that git tracks")
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def text_of(path: Path) -> str:
    return "" if path.suffix in BINARY_SUFFIXES else path.read_text(encoding="utf-8")


def test_no_source_file_is_longer_than_one_can_hold_in_mind() -> None:
    lengths = {
        str(path.relative_to(ROOT)): lines
        for path in tracked()
        if path.suffix in SOURCE_SUFFIXES and (lines := text_of(path).count("\n")) > LONGEST_FILE_LINES
    }
    assert lengths == {}


def test_no_module_is_named_for_nothing_in_particular() -> None:
    vague = re.compile(r"(^|_)(utils?|helpers?|managers?|misc|common)(_|\.|$)")
    assert [path.name for path in tracked() if path.suffix == ".py" and vague.search(path.name)] == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.suffix == ".py" and not text_of(path).startswith(('"""', 'r"""', "#!"))
    ]
    assert silent == []


def test_locks_are_hashed_and_name_no_registry() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        text = lock.read_text()
        assert not re.search(r"https?://|--(extra-)?index-url|--find-links", text), lock.name
        pins = re.findall(r"^([A-Za-z0-9._-]+)==", text, flags=re.MULTILINE)
        blocks = re.split(r"^(?=[A-Za-z0-9._-]+==)", text, flags=re.MULTILINE)[1:]
        assert pins
        assert all("--hash=sha256:" in block for block in blocks), lock.name


def test_the_operator_lock_has_no_torch_and_the_engine_lock_no_kopf() -> None:
    names = {
        lock: {
            line.split("==")[0] for line in (ROOT / "requirements" / f"{lock}.txt").read_text().splitlines()
        }
        for lock in ("operator", "engine")
    }
    assert not names["operator"] & {"torch", "transformers", "triton"}
    assert not names["engine"] & {"kopf", "kubernetes"}


def test_the_locks_agree_with_each_other() -> None:
    pinned: dict[str, set[str]] = {}
    for lock in (ROOT / "requirements").glob("*.txt"):
        for name, version in re.findall(
            r"^([A-Za-z0-9._-]+)==([^ \\]+)", lock.read_text(), flags=re.MULTILINE
        ):
            pinned.setdefault(name, set()).add(version)
    assert {name: versions for name, versions in pinned.items() if len(versions) > 1} == {}


def test_no_file_carries_an_address_of_a_package_registry_or_a_path_of_one_machine() -> None:
    hosts = (
        "files.python" + "hosted.org",
        "pypi." + "org",
        "proxy.golang" + ".org",
        "registry.npm" + "js.org",
        "deb.debian" + ".org",
        "download.py" + "torch.org",
    )
    paths = ("/work" + "/main", "/root" + "/.")
    found = [
        (str(path.relative_to(ROOT)), word)
        for path in tracked()
        for word in (*hosts, *paths)
        if word in text_of(path)
    ]
    assert found == []


def test_nothing_is_left_for_later_in_the_sources() -> None:
    unfinished = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|raise NotImplementedError")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in tracked()
        if path.suffix in SOURCE_SUFFIXES and path != Path(__file__)
        for line in text_of(path).splitlines()
        if unfinished.search(line)
    ]
    assert found == []
