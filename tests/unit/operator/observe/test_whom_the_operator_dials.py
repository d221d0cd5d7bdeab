"""The operator opens connections in three places: to its API server, and to pods that it owns."""

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[4] / "operator" / "headrace_operator"
OPENERS = {
    "ClientSession",
    "AsyncClient",
    "ApiClient",
    "urlopen",
    "create_connection",
    "open_connection",
}
PLACES = {
    "kube/client.py": "ApiClient",
    "observe/scraper.py": "ClientSession",
    "observe/admin.py": "ClientSession",
}


def opened(source: Path) -> list[str]:
    calls = [node.func for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Call)]
    names = [call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls]
    return [name for name in names if name in OPENERS]


def test_connections_are_opened_in_three_places_and_nowhere_else() -> None:
    found = {str(file.relative_to(SOURCES)): opened(file) for file in SOURCES.rglob("*.py")}
    assert {place: names for place, names in found.items() if names} == {
        place: [name] for place, name in PLACES.items()
    }


def test_what_dials_pods_takes_no_proxy_no_cookie_and_no_credentials_from_around_it() -> None:
    for place in ("observe/scraper.py", "observe/admin.py"):
        source = (SOURCES / place).read_text()
        assert "trust_env=False" in source
        assert "DummyCookieJar" in source
        assert "auth=" not in source
