"""An operator that reaches the API server through a proxy which fails on demand."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fault_proxy import FaultProxy
from kube_objects import KubeObjects
from least_service import service
from operator_process import through
from stopped_leader import Stopped, stopped_leader

from headrace_local.cluster import Cluster
from headrace_local.pki import Pki

QUICK = {"RELIST_INTERVAL_S": "5", "API_TIMEOUT_S": "1.5"}
"""Patience of seconds in the place of minutes."""


@pytest.fixture(scope="session")
def proxy(installed: Cluster) -> Iterator[FaultProxy]:
    proxy = FaultProxy(installed.url, Pki(installed.state.pki).authority.certificate)
    with proxy.running():
        yield proxy


@pytest.fixture(scope="session")
def behind_proxy(proxy: FaultProxy, account: Path) -> Callable[..., Path]:
    """`behind_proxy(file)`: the account's kubeconfig, leading to the proxy, with `token` where given."""
    return partial(through, account, proxy.url)


@pytest.fixture(scope="module")
def stopped(
    objects: KubeObjects, launch: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stopped]:
    """From here on, while tests of the module go by."""
    settings, files = QUICK | {"LEASE_DURATION_S": "8"}, tmp_path_factory.mktemp("stopped")
    with stopped_leader(objects, launch, service(), files, **settings) as stopped:
        yield stopped


@pytest.fixture
def start_behind_proxy(
    start_operator: Callable[..., Any], behind_proxy: Callable[..., Path], tmp_path: Path
) -> Callable[..., Any]:
    """`start_operator`, through the proxy."""
    kubeconfig = behind_proxy(tmp_path / "kubeconfig")

    def start(**variables: Any) -> Any:
        return start_operator(**{"KUBECONFIG": str(kubeconfig), **QUICK, **variables})

    return start
