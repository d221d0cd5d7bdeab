"""`operator/` is a source root: were it a package, `import operator` would break the interpreter itself."""

import operator
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("root", ["operator", "engine", "local"])
@pytest.mark.parametrize("name", ["__init__.py", "__main__.py", "conftest.py"])
def test_a_source_root_is_never_a_package(root: str, name: str) -> None:
    assert not (ROOT / root / name).exists(), f"{root}/ is a source root like src/, not a package"


def test_nothing_in_the_checkout_shadows_a_module_of_the_standard_library() -> None:
    shadows = [
        path.relative_to(ROOT)
        for base in (ROOT, ROOT / "operator", ROOT / "engine", ROOT / "local")
        for path in base.iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists()) and path.stem in sys.stdlib_module_names
    ]
    assert shadows == []


def test_python_started_in_the_checkout_finds_its_own_operator_module() -> None:
    code = "import operator, collections; print(operator.__file__)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == operator.__file__
    assert not Path(operator.__file__).is_relative_to(ROOT)
