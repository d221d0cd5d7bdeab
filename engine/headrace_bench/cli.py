"""`headrace bench`: a load on any OpenAI-compatible endpoint, live on the terminal, reported at the end."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headrace_bench.session import Settings
    from headrace_bench.summary import Objectives

DEFAULT_DURATION_S = 30.0


def register(root: typer.Typer) -> None:
    """Adds `bench` where the extra is installed."""
    if find_spec("httpx") is not None and find_spec("orjson") is not None:
        root.command("bench")(bench)


def bench(
    *,
    base_url: Annotated[str, typer.Option(help="OpenAI base URL.")] = "http://127.0.0.1:8000/v1",
    model: Annotated[
        str | None, typer.Option(help="Model name; default: the first that the server lists.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Poisson arrivals per second (open loop).")] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Users that ask again at once (closed loop).")
    ] = None,
    duration: Annotated[str | None, typer.Option(help="Stop sending after this long: 30s, 2m.")] = None,
    requests: Annotated[int | None, typer.Option(help="Stop sending after so many requests.")] = None,
    input_tokens: Annotated[int, typer.Option(help="Mean prompt length, approximate.")] = 128,
    output_tokens: Annotated[int, typer.Option(help="Mean of max_tokens.")] = 64,
    spread: Annotated[
        float, typer.Option(help="Lengths are uniform within this ratio of their means.")
    ] = 0.0,
    ttft_slo: Annotated[str | None, typer.Option(help="Objective for time to first token: 500ms.")] = None,
    itl_slo: Annotated[
        str | None, typer.Option(help="Objective for a request's mean gap between tokens.")
    ] = None,
    e2el_slo: Annotated[str | None, typer.Option(help="Objective for the whole answer.")] = None,
    max_retries: Annotated[
        int, typer.Option(help="How often to obey Retry-After; 0 counts a rejection.")
    ] = 0,
    timeout: Annotated[str, typer.Option(help="Longest silence on a connection.")] = "120s",
    seed: Annotated[int, typer.Option(help="Seed of arrivals, lengths and prompts.")] = 0,
    api_key: Annotated[str | None, typer.Option(envvar="OPENAI_API_KEY", help="Bearer token.")] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")
    ] = False,
) -> None:
    """Load an OpenAI-compatible endpoint and report TTFT, ITL, throughput and goodput."""
    from headrace_bench.duration import seconds
    from headrace_bench.load import Bounds
    from headrace_bench.session import Settings
    from headrace_bench.summary import Objectives
    from headrace_bench.workload import Lengths

    try:
        span_s = None if duration is None else seconds(duration)
        settings = Settings(
            base_url=base_url,
            lengths=Lengths(input_tokens, output_tokens, spread),
            bounds=Bounds(requests, span_s if span_s or requests else DEFAULT_DURATION_S),
            rate_per_s=rate,
            concurrency=concurrency,
            model=model,
            api_key=api_key,
            timeout_s=seconds(timeout),
            max_retries=max_retries,
            seed=seed,
        )
        objectives = Objectives(
            *(None if slo is None else seconds(slo) for slo in (ttft_slo, itl_slo, e2el_slo))
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    _run(settings, objectives, json_=json_)


def _run(settings: "Settings", objectives: "Objectives", *, json_: bool) -> None:
    """Runs the load, shows it, and exits with 1 when not one request ended well."""
    import asyncio
    from collections import Counter
    from dataclasses import asdict

    import orjson
    from rich.console import Console
    from rich.live import Live

    from headrace_bench import report, session
    from headrace_bench.summary import summarize

    console = Console(stderr=True)
    try:
        with Live(console=console, auto_refresh=False, transient=True) as shown:
            watch = lambda load: shown.update(report.live(load), refresh=console.is_terminal)  # noqa: E731
            load = asyncio.run(session.run(settings, watch))
    except session.EndpointError as error:
        typer.echo(f"headrace: {error}", err=True)
        raise typer.Exit(2) from error
    summary = summarize(load.records, load.elapsed_s, objectives)
    if json_:
        typer.echo(orjson.dumps(asdict(summary), option=orjson.OPT_INDENT_2).decode())
    else:
        failures = Counter(record.detail for record in load.records if record.detail)
        Console().print(report.report(summary, objectives, failures))
    if not summary.ok:
        raise typer.Exit(1)
