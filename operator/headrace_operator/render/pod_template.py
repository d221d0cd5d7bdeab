"""The engine's pod: `restricted` in the sense of Pod Security, root read-only, no token, whatever the spec.

Nothing in it depends on active limits, SLO targets or scaling: changing those must not replace a pod.
"""

import math
from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import (
    ADMIN_KEYS_HASH_ANNOTATION,
    GPU_CLASS_LABEL,
    SCRAPED,
    TEMPLATE_HASH_ANNOTATION,
    engine_name,
    labels,
)
from headrace_operator.api.placement import Toleration
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.render.affinity import affinity, spread
from headrace_operator.render.containers import engine_container, fetch_container
from headrace_operator.render.metadata import digest
from headrace_operator.render.volumes import volumes

USER_ID = 65532
GRACE_MARGIN_S = 30
"""On top of the drain timeout: to end the streams properly and to exit."""


def pod_template(spec: ServiceSpec, *, image: str, admin_keys: str) -> dict[str, Any]:
    """The template of the Deployment."""
    pod = {
        "serviceAccountName": engine_name(spec.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(spec.engine.drain_timeout_s) + GRACE_MARGIN_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
            **_file_group(spec),
        },
        **_containers(spec, image),
        "volumes": [volume.manifest for volume in volumes(spec)],
        **_placement(spec),
    }
    annotations = {ADMIN_KEYS_HASH_ANNOTATION: digest(admin_keys), **SCRAPED}
    pod_labels = {**dict(spec.placement.labels), **labels(spec.name)}
    template = {"metadata": {"labels": pod_labels, "annotations": annotations}, "spec": pod}
    annotations[TEMPLATE_HASH_ANNOTATION] = digest(template)
    return template


def template_hash(template: Mapping[str, Any]) -> str | None:
    """The digest that a template, or a pod made of it, carries."""
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    known: str | None = annotations.get(TEMPLATE_HASH_ANNOTATION)
    return known


def _containers(spec: ServiceSpec, image: str) -> dict[str, Any]:
    fetch = fetch_container(spec, image)
    first = {} if fetch is None else {"initContainers": [fetch]}
    return {**first, "containers": [engine_container(spec, image)]}


def _file_group(spec: ServiceSpec) -> dict[str, Any]:
    """What makes a claim writable to the pod's user. Only where the pod writes to it: changing the group of a
    large volume takes minutes.
    """
    if spec.model.is_downloaded and spec.model.cache.claim_name is not None:
        return {"fsGroup": USER_ID, "fsGroupChangePolicy": "OnRootMismatch"}
    return {}


def _placement(spec: ServiceSpec) -> dict[str, Any]:
    gpu_class = spec.engine.gpu_class
    fields: dict[str, Any] = {
        "imagePullSecrets": [{"name": name} for name in spec.engine.image_pull_secrets],
        "runtimeClassName": spec.engine.runtime_class_name,
        "nodeSelector": {
            **dict(spec.placement.node_selector),
            **({GPU_CLASS_LABEL: gpu_class} if gpu_class is not None else {}),
        },
        "tolerations": [_toleration(toleration) for toleration in spec.placement.tolerations],
        "priorityClassName": spec.placement.priority_class_name,
        "affinity": affinity(spec.placement.affinity, spec.name),
        "topologySpreadConstraints": spread(spec.placement.spread, spec.name),
    }
    return {name: value for name, value in fields.items() if value}


def _toleration(toleration: Toleration) -> Mapping[str, Any]:
    fields: dict[str, Any] = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
        "tolerationSeconds": toleration.toleration_seconds,
    }
    return {name: value for name, value in fields.items() if value is not None}
