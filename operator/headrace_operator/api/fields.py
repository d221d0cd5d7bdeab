"""The scalar types that the resource is made of: each bounded, each with a message that says the fix."""

import re
from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema

from headrace_operator.api.rules import Rule
from headrace_operator.api.units import DURATION_PATTERN, QUANTITY_PATTERN, duration_s, quantity

_SEGMENT = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
URI_PATTERN = rf"^(hf://{_SEGMENT}/{_SEGMENT}|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/{_SEGMENT})*|file://(/{_SEGMENT})+)$"
SERVED_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$"
REVISION_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
IMAGE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
DNS_SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_KEY_PATTERN = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE_PATTERN = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"


def matching(pattern: str, message: str) -> Rule:
    """A string that a pattern describes. RE2 and Python read the patterns above alike."""
    escaped = pattern.replace("\\", "\\\\")
    return Rule(f"self.matches('{escaped}')", message, lambda text: re.fullmatch(pattern, text) is not None)


def labels_rules(field: str) -> tuple[Rule, Rule]:
    """Keys and values of a map that are those of labels."""
    key, value = matching(LABEL_KEY_PATTERN, ""), matching(LABEL_VALUE_PATTERN, "")
    return (
        Rule(
            f"self.all(k, size(k) <= 253 && k.matches('{LABEL_KEY_PATTERN}'))",
            f"{field}: a key is not the key of a label",
            lambda labels: all(key.holds(found) for found in labels),
        ),
        Rule(
            f"self.all(k, self[k].matches('{LABEL_VALUE_PATTERN}'))",
            f"{field}: a value is not the value of a label",
            lambda labels: all(value.holds(found) for found in labels.values()),
        ),
    )


def within(low: str, high: str, field: str) -> Rule:
    """A duration between two others, both included."""
    low_s, high_s = duration_s(low), duration_s(high)
    return Rule(
        f"duration(self) >= duration('{low}') && duration(self) <= duration('{high}')",
        f"{field} must be between {low} and {high}",
        lambda text: low_s <= duration_s(text) <= high_s,
    )


def no_parent_segments(field: str) -> Rule:
    return Rule("!self.contains('..')", f"{field} must not contain '..'", lambda text: ".." not in text)


Duration = Annotated[str, StringConstraints(pattern=DURATION_PATTERN, max_length=32)]

ModelUri = Annotated[
    str,
    StringConstraints(min_length=1, max_length=512),
    matching(URI_PATTERN, "model.uri must be hf://ORG/NAME, pvc://CLAIM/DIRECTORY or file:///DIRECTORY"),
    no_parent_segments("model.uri"),
]
Revision = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128),
    matching(REVISION_PATTERN, "model.revision must be a branch, a tag or a commit"),
    no_parent_segments("model.revision"),
]
ServedName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128),
    matching(
        SERVED_NAME_PATTERN,
        "model.servedName must start with a letter or digit and hold only letters, digits and . _ : / -",
    ),
]
Image = Annotated[
    str,
    StringConstraints(min_length=1, max_length=255),
    matching(
        IMAGE_PATTERN, "engine.image must be an image reference such as registry/name:tag or name@sha256:..."
    ),
]
DnsName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=253),
    matching(DNS_SUBDOMAIN_PATTERN, "must be a lower-case DNS name"),
]
Ratio = Annotated[str, StringConstraints(pattern=r"^0\.[0-9]{1,4}$", max_length=6)]


def ratio_within(low: float, high: float, field: str) -> Rule:
    """A decimal string between two numbers, both included."""
    return Rule(
        f"double(self) >= {low} && double(self) <= {high}",
        f"{field} must be a decimal string between {low} and {high}",
        lambda text: low <= float(text) <= high,
    )


Attainment = Annotated[
    str,
    StringConstraints(pattern=r"^0\.[0-9]{1,4}$", max_length=6),
    Rule(
        "double(self) >= 0.5 && double(self) <= 0.9999",
        "slo.attainment must be a decimal string between 0.5 and 0.9999",
        lambda text: 0.5 <= float(text) <= 0.9999,
    ),
]


def _is_quantity(value: Any) -> bool:
    number = quantity(value)
    return number is not None and number > 0


Quantity = Annotated[
    int | str,
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "maxLength": 24,
        }
    ),
    Rule(
        "quantity(string(self)).isGreaterThan(quantity('0'))",
        "must be a positive quantity such as 500m, 2 or 4Gi",
        _is_quantity,
    ),
]
Sequences = Annotated[int, Field(ge=1, le=65_536)]
Tokens = Annotated[int, Field(ge=1, le=4_194_304)]
Replicas = Annotated[int, Field(ge=1, le=1_000)]
LabelValue = Annotated[str, StringConstraints(max_length=63)]
