"""`docs/security.md` numbers what went wrong elsewhere; each number has a test here, and the test exists."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/security.md"
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
NOT_APPLICABLE = "not applicable: "


@cache
def functions_of(path: Path) -> frozenset[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions)
    )


def rows() -> list[tuple[int, str]]:
    """Every number with its last column."""
    return [(int(number), tests) for number, _, _, tests in ROW.findall(PAGE.read_text(encoding="utf-8"))]


def test_rows_are_numbered_without_a_gap() -> None:
    numbers = [number for number, _ in rows()]
    assert len(numbers) >= 57
    assert numbers == list(range(1, len(numbers) + 1))


def test_each_row_has_a_test_or_says_why_not() -> None:
    assert [
        number for number, tests in rows() if not TEST.search(tests) and NOT_APPLICABLE not in tests
    ] == []


def test_each_test_exists() -> None:
    named = [test for _, tests in rows() for test in TEST.findall(tests)]
    assert [
        test
        for test in named
        if not (ROOT / test[0]).is_file() or test[1] not in functions_of(ROOT / test[0])
    ] == []
