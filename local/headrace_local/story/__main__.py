"""`python -m headrace_local.story`: plays the story on a terminal. What `local/demo` runs at last."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace_local.missing import Missing
from headrace_local.probe import ClusterError
from headrace_local.story.context_venue import ContextVenue
from headrace_local.story.failure import StoryFailed
from headrace_local.story.narrator import Narrator
from headrace_local.story.show import show_local, show_on


def main(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything up, to go on with it.")] = False,
    context: Annotated[str | None, typer.Option(help="Use the cluster of this kubeconfig context.")] = None,
    operator_image: Annotated[str | None, typer.Option(help="With --context: the operator's image.")] = None,
    engine_image: Annotated[str | None, typer.Option(help="With --context: the engine's image.")] = None,
    manifest: Annotated[
        Path | None, typer.Option(help="With --context: your own service.", exists=True)
    ] = None,
) -> None:
    """Show Headrace at work: a service declared, a burst of load, what the operator did about it and why."""
    images = (operator_image, engine_image)
    narrator = Narrator(Console(highlight=False), time.monotonic)
    try:
        if context is not None:
            show_on(narrator, ContextVenue(context, *_required(images), manifest), keep=keep)
        elif (*images, manifest) != (None, None, None):
            raise typer.BadParameter("--operator-image, --engine-image and --manifest go with --context")
        else:
            show_local(narrator, keep=keep)
    except StoryFailed as failure:
        narrator.failed(failure)
        raise typer.Exit(1) from failure
    except (Missing, ClusterError) as error:
        narrator.stop(f"headrace: {error}")
        raise typer.Exit(1) from error
    except KeyboardInterrupt as interrupt:
        removal = (
            ".venv/bin/headrace local down" if context is None else f"local/demo --context {context} ..."
        )
        narrator.stop(f"Stopped; what is up stays up. To have it removed: {removal}")
        raise typer.Exit(130) from interrupt


def _required(images: tuple[str | None, str | None]) -> tuple[str, str]:
    operator_image, engine_image = images
    if operator_image is None or engine_image is None:
        raise typer.BadParameter(
            "no image is published: build the Dockerfile's targets operator and engine, push them where the "
            "cluster can pull, and name them with --operator-image and --engine-image"
        )
    return operator_image, engine_image


if __name__ == "__main__":
    typer.run(main)
