"""`headrace operator run`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer


def register(root: typer.Typer) -> None:
    """Mount `headrace operator`; nothing where the extra is not installed."""
    if find_spec("kopf") is None:
        return
    app = typer.Typer(help="The control plane: runs InferenceServices on Kubernetes.", no_args_is_help=True)
    app.command("run")(run)
    app.callback()(lambda: None)
    root.add_typer(app, name="operator")


def run(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Outside a pod: how to reach the cluster.", show_default=False)
    ] = None,
    engine_image: Annotated[
        str | None, typer.Option(help="Image of engines whose service names none.", show_default=False)
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(help="Port of /metrics, /healthz and /readyz.", show_default=False)
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error.", show_default=False)
    ] = None,
) -> None:
    """Run the operator. Everything else is set by HEADRACE_OPERATOR_* variables."""
    import asyncio
    import os

    from headrace_operator.config import ConfigError, OperatorConfig
    from headrace_operator.kube.auth import CredentialsError
    from headrace_operator.main import main
    from headrace_operator.observe.admin import AdminKeyError
    from headrace_operator.run.log import configure_logging

    try:
        config = OperatorConfig.load(
            os.environ,
            kubeconfig=kubeconfig,
            engine_image=engine_image,
            http_port=http_port,
            log_level=log_level,
        )
        configure_logging(config.log_level)
        status = asyncio.run(main(config))
    except (ConfigError, CredentialsError, AdminKeyError) as error:
        typer.echo(f"headrace operator: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(status)
