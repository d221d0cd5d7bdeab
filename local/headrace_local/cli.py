"""`headrace local`: a real Kubernetes on this machine, up, down and status."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headrace_local.state import DEFAULT_NAME

if TYPE_CHECKING:
    from headrace_local.cluster import Cluster

# What the local cluster needs beyond the command itself.
_MARKER = "cryptography"

app = typer.Typer(
    name="local", no_args_is_help=True, help="A real Kubernetes on this machine, for trying and testing."
)

Name = Annotated[str, typer.Option("--name", help="Which cluster: several may run at once.")]


def register(root: typer.Typer) -> None:
    """Add `local` where the development extra is installed."""
    if importlib.util.find_spec(_MARKER) and importlib.util.find_spec("yaml"):
        root.add_typer(app)


@app.command()
def up(
    name: Name = DEFAULT_NAME,
    control_plane_only: Annotated[
        bool, typer.Option("--control-plane-only", help="No node: objects can be created, but no pod runs.")
    ] = False,
    add_context: Annotated[
        bool,
        typer.Option(
            "--add-context", help="Also add its context to your own kubeconfig (the current one stays)."
        ),
    ] = False,
) -> None:
    """Start the cluster, or join the one that runs. The first start builds it, which takes minutes."""
    from rich.console import Console

    from headrace_local.lifecycle import up as bring_up
    from headrace_local.progress import Phases

    with _told():
        cluster = bring_up(name, node=not control_plane_only, phases=Phases())
        if add_context:
            _add_context(cluster)
    Console().print(
        f"\n[bold]{name}[/] is up at {cluster.url}\n\n"
        f"  export KUBECONFIG={cluster.kubeconfig}\n"
        f"  export PATH={cluster.binaries.directory}:$PATH   [dim]# kubectl and helm[/]\n",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def down(name: Name = DEFAULT_NAME) -> None:
    """Take the cluster down and remove all of it but what was built."""
    from rich.console import Console

    from headrace_local.lifecycle import down as take_down
    from headrace_local.progress import Phases

    with _told():
        existed = take_down(name, phases=Phases())
    if not existed:
        Console().print(f"{name} was not up")


@app.command()
def status(
    name: Name = DEFAULT_NAME,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Say what runs; the exit status is 0 when the cluster is up and ready, and 1 otherwise."""
    import json

    from rich.console import Console

    from headrace_local.status import read_status, render

    with _told():
        found = read_status(name)
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=2))
    else:
        Console().print(render(found), soft_wrap=True)
    if not (found.api_ready and found.node_ready is not False):
        raise typer.Exit(1)


@contextmanager
def _told() -> Iterator[None]:
    """End with one plain sentence where the machine or the cluster says no."""
    from headrace_local.missing import Missing
    from headrace_local.probe import ClusterError

    try:
        yield
    except (Missing, ClusterError, ValueError) as error:
        typer.echo(f"headrace local: {error}", err=True)
        raise typer.Exit(1) from error


def _add_context(cluster: "Cluster") -> None:
    import os
    from pathlib import Path

    # The first file of KUBECONFIG is the one that kubectl writes new contexts to.
    configured = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    cluster.add_context(Path(configured) if configured else Path.home() / ".kube" / "config")
