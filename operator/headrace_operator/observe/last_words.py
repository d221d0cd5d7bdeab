"""What an engine said before it ended: of its last lines, the one that tells why. Pure."""

import json
from collections.abc import Mapping
from typing import Any

FAILURES = frozenset({"error", "critical"})


def last_words(terminated: Mapping[str, Any], *, memory_limit: str | None) -> str:
    """Of a container's terminated state, in one sentence for people."""
    if terminated.get("reason") == "OOMKilled":
        limit = f" of {memory_limit}" if memory_limit else ""
        return f"the engine needed more memory than its limit{limit}"
    said = _said(str(terminated.get("message") or ""))
    return said or f"the engine ended with exit code {terminated.get('exitCode')}"


def _said(log: str) -> str:
    """The last failure that was logged; without one, what a program that does not log has printed last."""
    lines = [line for line in (line.strip() for line in log.splitlines()) if line]
    entries = [entry for entry in map(_entry, lines) if entry is not None]
    failures = [entry for entry in entries if entry.get("level") in FAILURES]
    if failures:
        return str(failures[-1].get("reason") or failures[-1].get("message") or "")
    plain = [line for line in lines if _entry(line) is None]
    return plain[-1] if plain else ""


def _entry(line: str) -> Mapping[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, Mapping) else None
