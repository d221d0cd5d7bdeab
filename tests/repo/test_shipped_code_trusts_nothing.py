"""What ships unpickles nothing, imports nothing by a stranger's word, and opens doors in one place.

Each of these was a hole in an engine or an operator elsewhere, often copied from project to project.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted(
    path
    for place in ("engine", "operator")
    for path in (ROOT / place).rglob("*.py")
    if "__pycache__" not in path.parts
)
FORBIDDEN_MODULES = {
    *("pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "zmq"),
    *("transformers.dynamic_module_utils", "multipart"),
}
FORBIDDEN_CALLS = {
    *("torch.load", "eval", "exec", "compile", "__import__", "os.system", "yaml.unsafe_load", "numpy.load"),
}


def trees() -> Iterator[tuple[str, ast.AST]]:
    for path in SHIPPED:
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def called(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def where(found: Iterator[tuple[str, bool]]) -> list[str]:
    return [place for place, is_there in found if is_there]


def test_there_is_something_to_look_at() -> None:
    assert len(SHIPPED) > 150


def test_nothing_is_unpickled_and_no_text_is_run() -> None:
    """CVE-2025-32434, and sockets that unpickled whatever came, copied from project to project."""
    assert where((place, bool(imported(tree) & FORBIDDEN_MODULES)) for place, tree in trees()) == []
    assert where((place, bool(called(tree) & FORBIDDEN_CALLS)) for place, tree in trees()) == []


def test_no_shell_is_asked() -> None:
    with_shell = [
        place
        for place, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "shell"
    ]
    assert with_shell == []


def test_remote_code_is_named_where_it_is_refused_alone() -> None:
    """CVE-2026-22807, CVE-2026-27893: a flag that was off was not heeded on every path. There is none."""
    naming = [str(path.relative_to(ROOT)) for path in SHIPPED if "trust_remote_code" in path.read_text()]
    assert naming == ["engine/headrace_engine/runner/model_directory.py"]


def test_templates_are_rendered_in_one_place_and_its_sandbox() -> None:
    """CVE-2026-5760: one of several ways to render a template had no sandbox."""
    using = [
        place for place, tree in trees() if any(name.split(".")[0] == "jinja2" for name in imported(tree))
    ]
    assert using == ["engine/headrace_engine/runner/template_worker.py"]
    source = (ROOT / using[0]).read_text()
    assert set(re.findall(r"\w*Environment\b", source)) == {"ImmutableSandboxedEnvironment"}


def test_the_engine_opens_its_ports_in_one_place() -> None:
    """CVE-2026-3059, CVE-2026-3060: a broker beside the API listened on every interface."""
    engine, opens = "engine/headrace_engine/", {"bind", "start_server", "create_server", "create_unix_server"}
    opening = {
        place.removeprefix(engine)
        for place, tree in trees()
        if place.startswith(engine) and any(name.split(".")[-1] in opens for name in called(tree))
    }
    assert opening == {"server/http_server.py"}


def test_no_parser_of_forms_is_installed() -> None:
    """CVE-2024-9056: a multipart boundary burnt processor time; what is not there parses nothing."""
    for lock in ("engine", "operator"):
        names = re.findall(
            r"^([A-Za-z0-9._-]+)==", (ROOT / f"requirements/{lock}.txt").read_text(), re.MULTILINE
        )
        assert "python-multipart" not in {name.lower() for name in names}


@pytest.mark.parametrize(
    ("package", "least"),
    [("jinja2", (3, 1, 6)), ("starlette", (1, 0, 1)), ("h11", (0, 16, 0)), ("torch", (2, 6, 0))],
)
def test_what_is_locked_has_its_known_holes_closed(package, least) -> None:
    """CVE-2024-56326 and CVE-2025-27516 (Jinja), CVE-2026-48710 (Starlette), CVE-2025-43859 (h11),
    CVE-2025-32434 (torch).
    """
    lock = (ROOT / "requirements/engine.txt").read_text()
    (version,) = re.findall(rf"^{package}==([0-9.]+)", lock, re.MULTILINE | re.IGNORECASE)
    assert tuple(map(int, version.split("."))) >= least
