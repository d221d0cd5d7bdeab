"""docs/api.md lists every field of the CRD, with its type, default and description, and nothing else.

After a change of the API: `HEADRACE_WRITE_DOCS=1 python -m pytest tests/unit/docs`.
"""

import os
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
PAGE = CHECKOUT / "docs" / "api.md"
CRD = CHECKOUT / "crds" / "inferenceservices.headrace.dev.yaml"
BEGIN, END = "<!-- fields: generated -->\n", "<!-- fields: end -->\n"


def fields(schema, path):
    """Every leaf below a schema: (path, schema); objects of free keys and lists of scalars are leaves."""
    properties = schema.get("properties")
    if properties:
        for name, part in properties.items():
            yield from fields(part, f"{path}.{name}" if path else name)
    elif schema.get("type") == "array" and "properties" in schema["items"]:
        yield from fields(schema["items"], f"{path}[]")
    else:
        yield path, schema


def kind(schema):
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "enum" in schema:
        return " \\| ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map of {kind(schema['additionalProperties'])}"
    return schema.get("type", "any")


def default(root, path):
    """The default as it is seen after apply: the field's own, or the one of an object above it."""
    schema, given = root, None
    for name in path.replace("[]", "").split("."):
        while schema.get("type") == "array":
            schema, given = schema["items"], None
        given = given.get(name) if isinstance(given, dict) else None
        schema = schema["properties"][name]
        given = schema.get("default", given)
    return "" if given is None else f"`{given}`"


def table(root, part):
    rows = ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    for path, schema in fields(root["properties"][part], ""):
        meaning = schema.get("description", "").replace("|", "\\|").replace("\n", " ")
        rows.append(f"| `{path}` | {kind(schema)} | {default(root['properties'][part], path)} | {meaning} |")
    return "\n".join(rows) + "\n"


def test_the_page_lists_every_field():
    root = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    expected = f"### spec\n\n{table(root, 'spec')}\n### status\n\n{table(root, 'status')}"
    before, _, rest = PAGE.read_text().partition(BEGIN)
    written, _, after = rest.partition(END)
    if os.environ.get("HEADRACE_WRITE_DOCS"):
        PAGE.write_text(f"{before}{BEGIN}{expected}{END}{after}")
        return
    assert written == expected, "run: HEADRACE_WRITE_DOCS=1 python -m pytest tests/unit/docs"
