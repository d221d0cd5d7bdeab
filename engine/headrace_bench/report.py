"""A load on the terminal: one table while it runs, one when it is over."""

from collections import Counter

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace_bench.duration import written
from headrace_bench.load import Load
from headrace_bench.record import Outcome
from headrace_bench.summary import Distribution, Objectives, Summary, distribution

_RECENT = 200


def live(load: Load) -> Table:
    """Where the load stands; latencies over the last answers."""
    records = list(load.records)
    recent = records[-_RECENT:]
    outcomes = Counter(record.outcome for record in records)
    ttft = distribution([record.ttft_s for record in recent])
    itl = distribution([gap for record in recent for gap in record.itls_s])
    table = Table(
        title=f"{load.elapsed_s:.0f} s, latencies over the last {_RECENT} answers", title_justify="left"
    )
    for heading in ("in flight", *Outcome, "TTFT p50", "TTFT p95", "ITL p50", "ITL p95"):
        table.add_column(heading, justify="right")
    table.add_row(
        str(load.in_flight),
        *(str(outcomes[outcome]) for outcome in Outcome),
        *(written(ttft.p50_s if ttft else None), written(ttft.p95_s if ttft else None)),
        *(written(itl.p50_s if itl else None), written(itl.p95_s if itl else None)),
    )
    return table


def report(summary: Summary, objectives: Objectives, failures: Counter[str]) -> RenderableType:
    """The whole report: latencies, rates, outcomes, and what went wrong with how often."""
    return Group(_latencies(summary), _figures(summary, objectives), *_failures(failures))


def _latencies(summary: Summary) -> Table:
    table = Table(title="Latency", title_justify="left")
    for heading in ("", "count", "mean", "p50", "p90", "p95", "p99", "max"):
        table.add_column(heading, justify="right")
    named = {"TTFT": summary.ttft, "TPOT": summary.tpot, "ITL": summary.itl, "E2EL": summary.e2el}
    for name, values in named.items():
        table.add_row(name, *_row(values))
    return table


def _row(values: Distribution | None) -> tuple[str, ...]:
    if values is None:
        return ("0", *["-"] * 6)
    times = (values.mean_s, values.p50_s, values.p90_s, values.p95_s, values.p99_s, values.max_s)
    return (str(values.count), *(written(time) for time in times))


def _figures(summary: Summary, objectives: Objectives) -> Table:
    table = Table(show_header=False, box=None)
    outcomes = (
        f"{summary.ok} ok, {summary.rejected} rejected, {summary.broken} broken, {summary.failed} failed"
    )
    table.add_row("requests", f"{summary.requests} in {summary.duration_s:.1f} s: {outcomes}")
    if summary.retries:
        table.add_row("retries", f"{summary.retries} after 429 or 503 with Retry-After")
    table.add_row("throughput", f"{_per_s(summary.request_throughput_per_s)} requests/s")
    table.add_row(
        "tokens",
        f"{summary.prompt_tokens} in, {summary.output_tokens} out, "
        f"{_per_s(summary.output_throughput_tokens_per_s)} out/s",
    )
    if summary.attainment_ratio is not None:
        table.add_row("goodput", f"{_per_s(summary.goodput_per_s)} requests/s within {_targets(objectives)}")
        table.add_row("attainment", f"{summary.attainment_ratio:.1%} of all requests sent")
    if summary.one_token:
        table.add_row("note", f"{summary.one_token} answers of one token: no TPOT, judged without ITL")
    if summary.unknown_usage:
        table.add_row("note", f"{summary.unknown_usage} answers without usage: their tokens are not counted")
    if summary.send_lag_max_s is not None and summary.send_lag_max_s > 0.1:
        table.add_row(
            "note", f"the client sent up to {written(summary.send_lag_max_s)} late: it was overloaded too"
        )
    return table


def _failures(failures: Counter[str]) -> list[Text]:
    return [Text(f"{count} x {detail}", style="red") for detail, count in failures.most_common(5)]


def _targets(objectives: Objectives) -> str:
    named = {"TTFT": objectives.ttft_s, "mean ITL": objectives.itl_s, "E2EL": objectives.e2el_s}
    return ", ".join(f"{name} {written(target)}" for name, target in named.items() if target is not None)


def _per_s(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.2f}"
