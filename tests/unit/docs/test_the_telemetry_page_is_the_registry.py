"""docs/telemetry.md lists every metric that the engine exports and every field of a record, and nothing else.

After a change of them: `HEADRACE_WRITE_DOCS=1 python -m pytest tests/unit/docs`.
"""

import os
import re
from pathlib import Path

from headrace_engine.telemetry.metrics import SLO, Metrics
from headrace_engine.telemetry.records import RequestRecord, StepRecord
from headrace_engine.telemetry.report import Step

PAGE = Path(__file__).resolve().parents[3] / "docs" / "telemetry.md"
BEGIN, END = "<!-- metrics: generated -->\n", "<!-- metrics: end -->\n"


def labels(family):
    """Of the family itself: a family without samples yet has labels all the same."""
    return ", ".join(f"`{name}`" for name in family._labelnames)


def table():
    metrics = Metrics(model_name="m", max_model_len=4096, slo=SLO())
    families = {id(family): family for family in metrics.registry._names_to_collectors.values()}
    rows = ["| metric | type | labels | meaning |\n", "| --- | --- | --- | --- |\n"]
    for family in families.values():
        if not hasattr(family, "_labelnames"):
            continue
        name = f"{family._name}_total" if family._type == "counter" else family._name
        rows.append(f"| `{name}` | {family._type} | {labels(family)} | {family._documentation} |\n")
    return "".join(rows)


def test_the_table_is_generated_from_the_registry() -> None:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    generated = before + BEGIN + table() + END + after
    if os.environ.get("HEADRACE_WRITE_DOCS"):
        PAGE.write_text(generated)
    assert PAGE.read_text() == generated, "run HEADRACE_WRITE_DOCS=1 python -m pytest tests/unit/docs"


def test_every_field_of_a_record_is_told() -> None:
    sections = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)
    step = StepRecord(1.0, Step(1, 2, 0.1), 3, 4).document()
    for title, fields in (("A step", step), ("A request", RequestRecord._fields)):
        (section,) = (part for part in sections if part.startswith(title))
        assert re.findall(r"^\| `(\w+)`", section, flags=re.MULTILINE) == list(fields)
