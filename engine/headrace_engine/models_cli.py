"""`headrace models`: what stands in the models directory, and what can be added to it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(help="Models on this machine.", no_args_is_help=True)


@app.command("add")
def add(
    name: Annotated[
        str, typer.Argument(help="A name that `headrace models list` shows, or hf://ORG/NAME[@REVISION].")
    ],
    report: Annotated[
        Path | None,
        typer.Option(help="File to write the commit of an hf:// model to, as hf://ORG/NAME@COMMIT."),
    ] = None,
) -> None:
    """Put a model into the models directory: one of the catalog, made and checked by its answers, or one of
    a Hugging Face hub.
    """
    from headrace_engine.runner.cache import models_directory
    from headrace_engine.runner.catalog import CATALOG
    from headrace_engine.runner.catalog.entry import AddError
    from headrace_engine.runner.errors import ModelLoadError

    console = Console(stderr=True, soft_wrap=True)
    if name.startswith("hf://"):
        _add_from_hub(name, console, report)
        return
    entry = CATALOG.get(name)
    if entry is None:
        console.print(
            f"[red]There is no model {name!r} in the catalog.[/] It has {', '.join(sorted(CATALOG))}."
        )
        raise typer.Exit(2)
    models = models_directory()
    try:
        with console.status(f"Adding {name}") as status:

            def progress(step: str) -> None:
                status.update(step)
                if not console.is_terminal:
                    console.print(step)

            was_added = entry.add(models, progress)
    except (AddError, ModelLoadError) as error:
        console.print(f"[red]{name} was not added:[/] {error}")
        raise typer.Exit(1) from error
    console.print(f"{name} {'is in' if was_added else 'was already in'} {models / name}")


def _add_from_hub(uri: str, console: Console, report: Path | None) -> None:
    from headrace_engine.runner.errors import ModelLoadError
    from headrace_engine.runner.hub.fetch import fetch
    from headrace_engine.runner.placing import revision_in

    try:
        directory = fetch(uri)
    except ModelLoadError as error:
        console.print(f"[red]{uri} was not added:[/] {error}")
        raise typer.Exit(1) from error
    console.print(f"{uri} is in {directory}: serve it as {directory.name}")
    if report is not None:
        report.write_text(revision_in(directory) or "")


@app.command("list")
def list_models() -> None:
    """Show the models that stand in the models directory and those that can be added."""
    from headrace_engine.runner.cache import models_directory
    from headrace_engine.runner.catalog import CATALOG

    models = models_directory()
    present = (
        {
            path.name
            for path in models.iterdir()
            if (path / "config.json").is_file() and not path.name.startswith(".")
        }
        if models.is_dir()
        else set()
    )
    table = Table("model", "state", "what it is", box=None, pad_edge=False, title=None)
    for name in sorted(present | CATALOG.keys()):
        entry = CATALOG.get(name)
        table.add_row(name, "added" if name in present else "can be added", entry.summary if entry else "")
    console = Console()
    console.print(f"Models directory: {models}", soft_wrap=True)
    console.print(table)
