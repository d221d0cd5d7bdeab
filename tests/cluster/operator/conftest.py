"""The whole operator as a process beside a real control plane, and pods that a test plays the kubelet for."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from kube_objects import KubeObjects
from operator_process import (
    SYSTEM_NAMESPACE,
    OperatorProcess,
    account_file,
    install,
    launch_operator,
)
from own_namespace import Namespace

from headrace_local.cluster import Cluster


@pytest.fixture(scope="session")
def installed(control_plane: Cluster) -> Cluster:
    """The control plane with what the chart puts there, but for the operator itself."""
    return install(control_plane)


@pytest.fixture(scope="session")
def account(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's own kubeconfig."""
    return account_file(installed, tmp_path_factory.mktemp("account") / "kubeconfig")


@pytest.fixture(scope="session")
def objects(installed: Cluster) -> Iterator[KubeObjects]:
    objects = KubeObjects(installed)
    yield objects
    objects.close()


@pytest.fixture
def namespace(objects: KubeObjects) -> Iterator[Namespace]:
    namespace = Namespace.create(objects)
    yield namespace
    namespace.leave()


@pytest.fixture(scope="session")
def admin_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("key") / "admin.pem"
    key = Ed25519PrivateKey.generate()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return file


@pytest.fixture(scope="session")
def launch(account: Path, admin_key: Path) -> Callable[..., OperatorProcess]:
    """Starts an operator process; whoever starts it ends it."""
    return partial(launch_operator, account, admin_key)


@pytest.fixture
def start_operator(
    launch: Callable[..., OperatorProcess], namespace: Namespace, tmp_path: Path
) -> Iterator[Callable[..., OperatorProcess]]:
    """Starts an operator that watches the test's namespace; all of a test share one lease."""
    started: list[OperatorProcess] = []

    def start(*, ready: bool = True, **variables: str) -> OperatorProcess:
        own = {"WATCH_NAMESPACES": namespace.name, "POD_NAME": f"operator-{len(started)}"}
        operator = launch(tmp_path / f"operator-{len(started)}.log", **(own | variables))
        started.append(operator)
        if ready:
            operator.wait_ready()
        return operator

    yield start
    for operator in started:
        operator.end()
    namespace.objects.delete("lease", SYSTEM_NAMESPACE, "headrace-operator")


@pytest.fixture(scope="module")
def operator(
    launch: Callable[..., OperatorProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """One operator for a module's tests, over the whole cluster."""
    operator = launch(tmp_path_factory.mktemp("operator") / "operator.log")
    operator.wait_ready()
    yield operator
    operator.stop()
    operator.end()
