"""The root of the command line. It knows no subcommand: each package brings its own by entry point."""

import signal
import sys
from importlib.metadata import EntryPoint, entry_points, version
from types import FrameType
from typing import Annotated, NoReturn

import typer

GROUP = "headrace.commands"


def build() -> typer.Typer:
    """The command with the subcommands of every package whose extra is installed."""
    root = typer.Typer(
        name="headrace",
        help="Serve language models to declared SLOs, steering replicas and scheduler limits together.",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(_root)
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        _register(root, entry)
    return root


def main() -> None:
    # The first process of a container is sent no signal that it has no handler for: until a command sets its
    # own, one that is told to stop would go on until it is killed.
    signal.signal(signal.SIGTERM, _leave)
    build()()


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _root(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda given: _version(given=given), is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Serve language models to declared SLOs."""


def _version(*, given: bool) -> None:
    if given:
        typer.echo(f"headrace {version('headrace')}")
        raise typer.Exit


def _register(root: typer.Typer, entry: EntryPoint) -> None:
    """A package that is broken costs its own subcommands, not the others'; one that is not there, nothing."""
    try:
        entry.load().register(root)
    except ImportError as error:
        if error.name == entry.module.partition(".")[0]:
            return
        print(f"headrace: the {entry.name} commands are not available: {error}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
