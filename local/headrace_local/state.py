"""What is kept of one cluster on disk, and the names derived from where that is.

The kernel's objects (link, cgroup) are named after the state directory, so that clusters of the same name in
two caches never take each other's.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace_local.cache import cache_directory

DEFAULT_NAME = "headrace"
NAME_PATTERN = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Description:
    """What was asked for when the cluster was made."""

    index: int
    binaries: str
    node: bool = False
    # Whether the start came to its end: a starter may be killed as well.
    stands: bool = False
    # The pid and start time of a test session that ends the cluster with itself; None for a user's cluster.
    owner: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class State:
    """The files of the cluster called `name`."""

    name: str
    directory: Path

    @property
    def tag(self) -> str:
        digest = hashlib.sha256(str(self.directory).encode()).hexdigest()[:6]
        return f"headrace-{self.name}-{digest}"

    @property
    def link(self) -> str:
        # The kernel takes 15 characters.
        return f"hr-{self.tag[-6:]}"

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    @property
    def records(self) -> Path:
        return self.directory / "processes"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def own(self) -> Path:
        """What the daemons see under their fixed names, such as `/var/lib/kubelet`."""
        return self.directory / "own"

    @property
    def mount_points(self) -> Path:
        """The record, common to all clusters, of the directories made to be mounted on."""
        return self.directory.parent / "mount-points.json"

    @property
    def context(self) -> str:
        """The name of the context in the cluster's kubeconfig."""
        return "headrace-local" if self.name == DEFAULT_NAME else f"headrace-local-{self.name}"

    def make(self) -> None:
        """Make the directories; what they hold is root's business (keys, volumes)."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self.pki, self.records, self.logs, self.own):
            directory.mkdir(exist_ok=True)

    def describe(self, description: Description) -> None:
        new = self.directory / ".cluster.json.new"
        new.write_text(json.dumps(asdict(description)))
        new.replace(self.directory / "cluster.json")

    def description(self) -> Description | None:
        """What the last start was asked for; None where there was none."""
        try:
            kept = json.loads((self.directory / "cluster.json").read_text())
        except FileNotFoundError:
            return None
        owner = tuple(kept.pop("owner") or ()) or None
        return Description(**kept, owner=owner)


def clusters_directory() -> Path:
    return cache_directory() / "clusters"


def state_of(name: str) -> State:
    """The state of a cluster by name; raises ValueError for a name that no cluster may have."""
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name for a cluster: lower-case letters, digits and dashes, at most 30"
        )
    return State(name, clusters_directory() / name)


def known_clusters() -> list[State]:
    """Every cluster that was started and not taken down, dead ones included."""
    found = clusters_directory().glob("*/cluster.json")
    return [State(file.parent.name, file.parent) for file in sorted(found)]
