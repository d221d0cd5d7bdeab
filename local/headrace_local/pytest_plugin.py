"""Fixtures: a real control plane, or a real cluster with its node, for a test session.

A conftest imports the names that its tests use. Each cluster is the session's own: a random name, taken down
at the end, and by the next session where this one was killed.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace_local import lifecycle
from headrace_local.binaries import built_binaries
from headrace_local.cluster import Cluster
from headrace_local.missing import Missing, require_linux_root
from headrace_local.processes import current_process


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cluster]:
    """A control plane without a node: every object can be created, and no pod runs."""
    with session_cluster(node=False) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster whose node runs pods."""
    with session_cluster(node=True) as cluster:
        yield cluster


@contextmanager
def session_cluster(*, node: bool) -> Iterator[Cluster]:
    """A cluster of this process; skips the test where the machine can have none."""
    require_machine()
    lifecycle.take_down_abandoned()
    name = f"test-{secrets.token_hex(3)}"
    try:
        yield lifecycle.up(name, node=node, owner=current_process("owner"))
    finally:
        lifecycle.down(name)


def require_machine() -> None:
    """Skip where there can be no cluster (no Linux, not root); fail where its programs are not built."""
    try:
        require_linux_root()
    except Missing as missing:
        pytest.skip(str(missing))
    # A build takes longer than a test may.
    if built_binaries() is None:
        pytest.fail("the cluster's programs are not built: `headrace local up` builds them, once")
