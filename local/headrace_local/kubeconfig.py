"""Kubeconfigs: one a component, the administrator's, and on request a context in the user's own file."""

import base64
from pathlib import Path
from typing import Any

import yaml

from headrace_local.certificates import KeyPair


def kubeconfig(name: str, server: str, authority: Path, client: KeyPair) -> dict[str, Any]:
    """A kubeconfig with one cluster, user and context, all called `name`, and everything in it embedded."""
    cluster = {"server": server, "certificate-authority-data": _embedded(authority)}
    user = {
        "client-certificate-data": _embedded(client.certificate),
        "client-key-data": _embedded(client.key),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def write_kubeconfig(file: Path, config: dict[str, Any]) -> Path:
    """Write it readable by its owner alone, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.touch(mode=0o600)
    new.write_text(yaml.safe_dump(config, sort_keys=False))
    new.replace(file)
    return file


def merge_context(target: Path, config: dict[str, Any]) -> None:
    """Add the cluster, user and context of `config` to a kubeconfig, in place of those of the same name.

    Everything else in the file stays as it was, its current context above all; a new file's is set.
    """
    target = target.resolve()
    users = yaml.safe_load(target.read_text()) if target.exists() else None
    merged: dict[str, Any] = users or {"apiVersion": "v1", "kind": "Config"}
    for section in ("clusters", "users", "contexts"):
        added = config[section]
        names = {entry["name"] for entry in added}
        merged[section] = [entry for entry in merged.get(section) or [] if entry["name"] not in names] + added
    merged.setdefault("current-context", config["current-context"])
    write_kubeconfig(target, merged)


def _embedded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
