"""One command shows what is installed; the operator runs where no torch is, the engine where no kopf is."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "engine": "engine/headrace_engine",
    "bench": "engine/headrace_bench",
    "operator": "operator/headrace_operator",
}
MODULE_OF = {"pyjwt": "jwt", "pyyaml": "yaml"}
"""Of a distribution that is not imported by its own name."""
PURE = (
    "headrace_engine.core",
    "headrace_operator.decide",
    "headrace_operator.render",
    "headrace_operator.runtimes",
)
HEAVY = ("torch", "triton", "transformers", "kopf", "kubernetes")


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_pure_packages_load_nothing_heavy() -> None:
    walk = (
        "import importlib, pkgutil\n"
        f"for name in {PURE!r}:\n"
        "    package = importlib.import_module(name)\n"
        "    for module in pkgutil.walk_packages(package.__path__, name + '.'):\n"
        "        importlib.import_module(module.name)"
    )
    assert not modules_after(walk) & set(HEAVY)


def test_the_operator_loads_no_torch() -> None:
    assert not modules_after("import headrace_operator.main") & {"torch", "triton", "transformers"}


def test_the_command_line_loads_nothing_heavy_until_a_command_runs() -> None:
    assert not modules_after("import headrace_cli.main as c; c.build()") & set(HEAVY)


@pytest.mark.parametrize("extra", SOURCES)
def test_an_extra_brings_nothing_that_its_package_does_not_import(extra: str) -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][extra]
    names = [re.match(r"[a-z0-9-]+", each)[0] for each in listed]
    lines = "\n".join(path.read_text() for path in (ROOT / SOURCES[extra]).rglob("*.py"))
    unused = []
    for name in names:
        module = re.sub("-", "[._]", MODULE_OF.get(name, name.removesuffix("-api")))
        if not re.search(rf"^\s*(?:from|import) {module}\b", lines, flags=re.MULTILINE):
            unused.append(name)
    assert unused == []


def told_of(package: str) -> str:
    """What the command says of an entry that names a package."""
    code = (
        "import typer; from importlib.metadata import EntryPoint; from headrace_cli.main import _register\n"
        f"_register(typer.Typer(), EntryPoint('x', {package!r}, 'headrace.commands'))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr


def test_a_package_that_is_not_part_of_the_installation_is_not_spoken_of() -> None:
    assert told_of("headrace_not_installed.cli") == ""


def test_a_package_that_lacks_a_module_says_so() -> None:
    assert "the x commands are not available" in told_of("json.not_there")
