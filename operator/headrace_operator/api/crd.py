"""The CustomResourceDefinition, as `python -m headrace_operator.api.crd` prints it; `crds/` holds the output.

pydantic's JSON schema becomes a structural one: references inlined, null and titles dropped (absence says
it).
"""

import sys
from typing import Any

import yaml
from pydantic import BaseModel

from headrace_operator.api.names import GROUP, KIND, MAX_NAME_LENGTH, PLURAL, VERSION
from headrace_operator.api.resource import SpecPart
from headrace_operator.api.status_resource import StatusPart

_DROPPED = frozenset({"title", "$defs"})
_NAME_RULES = [
    {
        "rule": f"size(self.metadata.name) <= {MAX_NAME_LENGTH}",
        "message": f"metadata.name must be at most {MAX_NAME_LENGTH} characters: the pods' names extend it",
    },
    {
        "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "message": "metadata.name must start with a letter and hold lower-case letters, digits and - only: "
        "it names a Service",
    },
]
_COLUMNS = (
    ("Ready", "string", ".status.summary.ready", 0, "Ready pods of the wanted ones"),
    ("SLO", "string", '.status.conditions[?(@.type=="SLOMet")].status', 0, "Whether the SLO is met"),
    ("Attained", "string", ".status.observed.attainment", 0, "Share of requests that met every target"),
    ("TTFT-P95", "string", ".status.observed.ttftP95", 0, "Time to the first token"),
    ("ITL-P95", "string", ".status.observed.itlP95", 0, "Time between tokens"),
    ("Limits", "string", ".status.summary.limits", 0, "maxNumSeqs/maxNumBatchedTokens now"),
    ("Action", "string", ".status.decision.action", 0, "What Headrace is doing"),
    ("Reason", "string", ".status.decision.reason", 0, "Why"),
    ("Age", "date", ".metadata.creationTimestamp", 0, None),
    ("Model", "string", ".spec.model.uri", 1, "The model"),
    ("Mode", "string", ".spec.scaling.mode", 1, "Who decides about replicas"),
    ("GPUs", "integer", ".spec.engine.gpu.count", 1, "GPUs of one replica"),
    ("Queue-P95", "string", ".status.observed.queueTimeP95", 1, "Time to the first scheduling"),
    ("State", "string", '.status.conditions[?(@.type=="Ready")].reason', 1, "Reason of condition Ready"),
    ("URL", "string", ".status.url", 1, "Base URL of the OpenAI API"),
    ("Message", "string", ".status.decision.message", 1, "Why, with numbers"),
)


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[1]]
        return _inlined(
            {**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions
        )
    variants = [variant for variant in node.get("anyOf", []) if variant != {"type": "null"}]
    if len(variants) < len(node.get("anyOf", [])):
        rest = {key: value for key, value in node.items() if key not in {"anyOf", "default"}}
        return _inlined({**variants[0], **rest}, definitions)
    if "const" in node:
        rest = {key: value for key, value in node.items() if key != "const"}
        return _inlined({**rest, "enum": [node["const"]]}, definitions)
    return {
        key: (
            {name: _inlined(child, definitions) for name, child in value.items()}
            if key == "properties"
            else _inlined(value, definitions)
        )
        for key, value in node.items()
        if key not in _DROPPED
    }


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The structural OpenAPI v3 schema of a model."""
    schema = model.model_json_schema(by_alias=True)
    inlined: dict[str, Any] = _inlined(schema, schema.get("$defs", {}))
    return inlined


def _columns() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "type": kind,
            "jsonPath": path,
            **({"priority": priority} if priority else {}),
            **({"description": description} if description else {}),
        }
        for name, kind, path, priority, description in _COLUMNS
    ]


def _schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "A language model served to declared SLOs.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(SpecPart),
            "status": structural(StatusPart),
        },
        "x-kubernetes-validations": _NAME_RULES,
    }


def _version() -> dict[str, Any]:
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _schema()},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": _columns(),
    }


def custom_resource_definition() -> dict[str, Any]:
    """The whole manifest."""
    names = {
        "kind": KIND,
        "listKind": f"{KIND}List",
        "plural": PLURAL,
        "singular": KIND.lower(),
        "shortNames": ["infs"],
        "categories": ["inference"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [_version()]},
    }


def manifest_text() -> str:
    """The manifest as it is checked in."""
    header = "# Generated by `python -m headrace_operator.api.crd`; edit headrace_operator/api instead.\n"
    return header + yaml.safe_dump(
        custom_resource_definition(), sort_keys=False, width=110, allow_unicode=True
    )


if __name__ == "__main__":
    sys.stdout.write(manifest_text())
