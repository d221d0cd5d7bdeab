"""An operator that reaches the API server through a proxy which fails on demand."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fault_proxy import FaultProxy

from headrace_local.cluster import Cluster
from headrace_local.pki import Pki

QUICK = {"RELIST_INTERVAL_S": "5", "API_TIMEOUT_S": "1.5"}
"""Patience of seconds in the place of minutes."""


@pytest.fixture(scope="session")
def proxy(installed: Cluster) -> Iterator[FaultProxy]:
    proxy = FaultProxy(installed.url, Pki(installed.state.pki).authority.certificate)
    proxy.start()
    yield proxy
    proxy.stop()


@pytest.fixture(scope="session")
def behind_proxy(proxy: FaultProxy, account: Path) -> Callable[..., Path]:
    """`behind_proxy(file)`: the account's kubeconfig, leading to the proxy, with `token` where given."""

    def write(file: Path, *, token: str | None = None) -> Path:
        config = yaml.safe_load(account.read_text())
        for cluster in config["clusters"]:
            cluster["cluster"] = {"server": proxy.url}
        if token is not None:
            config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        file.write_text(yaml.safe_dump(config))
        return file

    return write


@pytest.fixture
def start_behind_proxy(
    start_operator: Callable[..., Any], behind_proxy: Callable[..., Path], tmp_path: Path
) -> Callable[..., Any]:
    """`start_operator`, through the proxy."""
    kubeconfig = behind_proxy(tmp_path / "kubeconfig")

    def start(**variables: Any) -> Any:
        return start_operator(**{"KUBECONFIG": str(kubeconfig), **QUICK, **variables})

    return start
