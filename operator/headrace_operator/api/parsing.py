"""From the object that the API server keeps to `ServiceSpec`, or to `Invalid` with the field and what to do.

`parse` takes any JSON and never raises: objects may predate a rule of the CRD, and one bad object must
not stop the others. Everything is therefore validated again, by the models that the CRD is generated
from.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from headrace_operator.api.conversion import service_spec
from headrace_operator.api.names import MAX_NAME_LENGTH
from headrace_operator.api.resource import SpecPart
from headrace_operator.api.spec import Invalid, ServiceSpec

_NAME = re.compile(rf"[a-z]([-a-z0-9]{{0,{MAX_NAME_LENGTH - 2}}}[a-z0-9])?")
_MAX_REPORTED_MISTAKES = 5


def parse(raw: Any) -> ServiceSpec | Invalid:
    """The InferenceService in `raw`. Never raises."""
    raw = raw if isinstance(raw, Mapping) else {}
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    identity = _identity(metadata)
    if _NAME.fullmatch(identity["name"]) is None:
        message = f"metadata.name: must be a DNS-1035 name of at most {MAX_NAME_LENGTH} characters"
        return Invalid(**identity, reason="InvalidSpec", message=message)
    try:
        part = SpecPart.model_validate(raw.get("spec"))
    except ValidationError as error:
        return Invalid(**identity, reason="InvalidSpec", message=_mistakes(error))
    return service_spec(part, **identity)


def _identity(metadata: Mapping[str, Any]) -> dict[str, Any]:
    texts = {
        key: value if isinstance(value := metadata.get(key), str) else ""
        for key in ("namespace", "name", "uid")
    }
    generation = metadata.get("generation")
    return {**texts, "generation": generation if isinstance(generation, int) else 0}


def _mistakes(error: ValidationError) -> str:
    lines = []
    for mistake in error.errors(include_url=False, include_input=False)[:_MAX_REPORTED_MISTAKES]:
        blamed = (mistake.get("ctx") or {}).get("path") or ""
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in mistake["loc"])
        lines.append(f"spec{place}{blamed}: {mistake['msg']}")
    return "\n".join(lines)[:1024].encode("utf-8", "replace").decode()
