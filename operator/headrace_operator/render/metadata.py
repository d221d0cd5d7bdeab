"""What every child carries: its names and labels, its owner, and the digest of what was rendered."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import API_VERSION, KIND, RENDERED_HASH_ANNOTATION, labels
from headrace_operator.api.spec import ServiceSpec


def digest(content: Any) -> str:
    """A short digest that does not depend on the order of keys."""
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def child(
    spec: ServiceSpec, *, api_version: str, kind: str, name: str, content: Mapping[str, Any]
) -> dict[str, Any]:
    """A whole manifest, owned by the InferenceService, so that it goes when the service goes."""
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": spec.name,
        "uid": spec.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "name": name,
        "namespace": spec.namespace,
        "labels": labels(spec.name),
        "annotations": {RENDERED_HASH_ANNOTATION: digest(content)},
        "ownerReferences": [owner],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
