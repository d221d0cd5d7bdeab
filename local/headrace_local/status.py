"""What a cluster is doing, as data and as a table."""

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace_local.cluster import Cluster
from headrace_local.lifecycle import daemons_of, dead_daemons, find_cluster
from headrace_local.probe import node_is_ready
from headrace_local.processes import Daemons
from headrace_local.progress import duration
from headrace_local.state import state_of

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Component:
    """One daemon."""

    name: str
    pid: int
    alive: bool
    age_s: float | None
    memory_bytes: int | None
    log: str


@dataclass(frozen=True, slots=True)
class Status:
    """One cluster; what does not apply to its depth, or cannot be known while it is down, is None."""

    name: str
    state: str  # "running", "broken" (dead daemons) or "down"
    dead: tuple[str, ...] = ()
    components: tuple[Component, ...] = ()
    api_ready: bool | None = None
    node_ready: bool | None = None
    url: str | None = None
    kubeconfig: str | None = None
    logs: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def read_status(name: str) -> Status:
    """Look at the processes, and ask the API server if it should run."""
    state = state_of(name)
    description = state.description()
    if description is None:
        return Status(name, "down")
    components = _components(daemons_of(state))
    cluster = find_cluster(name)
    if cluster is None:
        dead = tuple(dead_daemons(state, description))
        return Status(name, "broken", dead, components, logs=str(state.logs))
    return Status(
        name,
        "running",
        components=components,
        api_ready=cluster.api.is_ready(),
        node_ready=_node_ready(cluster) if description.node else None,
        url=cluster.url,
        kubeconfig=str(cluster.kubeconfig),
        logs=str(state.logs),
    )


def render(status: Status) -> RenderableType:
    """The status for a terminal."""
    if status.state == "down":
        return Text(f"{status.name} is down: start it with `headrace local up`")
    table = Table("component", "pid", "age", "memory", box=None, pad_edge=False, header_style="bold")
    for component in status.components:
        table.add_row(*_row(component))
    return Group(_headline(status), Text(), table, Text(), *_addresses(status))


def _components(daemons: Daemons) -> tuple[Component, ...]:
    return tuple(
        Component(
            name=process.name,
            pid=process.pid,
            alive=process.alive,
            age_s=round(process.age_s, 1) if process.alive else None,
            memory_bytes=process.memory_bytes if process.alive else None,
            log=str(daemons.log(process.name)),
        )
        for process in daemons.all()
    )


def _node_ready(cluster: Cluster) -> bool:
    return node_is_ready(cluster.api.get(f"/api/v1/nodes/{cluster.name}"))


def _headline(status: Status) -> Text:
    if status.state == "broken":
        dead = ", ".join(status.dead) or "its start"
        return Text(f"{status.name} is broken ({dead} ended): `headrace local up` makes it anew", style="red")
    said = {True: "ready", False: "not ready"}
    node = "no node" if status.node_ready is None else f"node {said[status.node_ready]}"
    healthy = bool(status.api_ready) and status.node_ready is not False
    return Text(
        f"{status.name} is running: API server {said[bool(status.api_ready)]}, {node}",
        style="green" if healthy else "yellow",
    )


def _row(component: Component) -> tuple[str | Text, ...]:
    if component.age_s is None or component.memory_bytes is None:
        return component.name, str(component.pid), Text("dead", style="red"), ""
    memory = f"{component.memory_bytes / MEBIBYTE:.0f} MiB"
    return component.name, str(component.pid), duration(component.age_s), memory


def _addresses(status: Status) -> list[Text]:
    known = [("API server", status.url), ("kubeconfig", status.kubeconfig), ("logs", status.logs)]
    return [Text(f"{what:<12}{where}") for what, where in known if where is not None]
