"""CONTRIBUTING walks a token and a decision file by file: every file it names stands where it says."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
WALKS = {
    "A token, file by file": "engine/headrace_engine",
    "A decision, file by file": "operator/headrace_operator",
}


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_names_files_that_stand(title):
    walk = (CHECKOUT / "CONTRIBUTING.md").read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    root = CHECKOUT / WALKS[title]
    named = re.findall(r"`([a-z0-9_/]+(?:\.py|/))`", walk)
    assert len(named) > 15
    # A bare name is in the package that its step is about; the last step of a decision is in the engine.
    roots = [
        root,
        *sorted(path for path in root.iterdir() if path.is_dir()),
        CHECKOUT / "engine/headrace_engine",
        CHECKOUT,
    ]
    assert [name for name in named if not any((place / name).exists() for place in roots)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
