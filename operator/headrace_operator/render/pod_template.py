"""The engine's pod: `restricted` in the sense of Pod Security, root read-only, no token, whatever the spec.

Nothing in it depends on active limits, SLO targets or scaling: changing those must not replace a pod.
"""

import math
from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import (
    ADMIN_KEYS_HASH_ANNOTATION,
    ADMIN_PORT,
    CONFIG_MOUNT_PATH,
    CONTAINER,
    HTTP_PORT,
    MODELS_MOUNT_PATH,
    TEMPLATE_HASH_ANNOTATION,
    engine_name,
    labels,
)
from headrace_operator.api.spec import ServiceSpec, Toleration
from headrace_operator.render.metadata import digest
from headrace_operator.runtimes.model_path import claim_name
from headrace_operator.runtimes.registry import adapter

USER_ID = 65532
GRACE_MARGIN_S = 30
"""On top of the drain timeout: to end the streams properly and to exit."""
ENDPOINT_REMOVAL_S = 3
"""A deleted pod goes on serving so long, until no Service sends it requests any more."""
SCRATCH_SIZE_LIMIT = "4Gi"


def pod_template(spec: ServiceSpec, *, image: str, admin_keys: str) -> dict[str, Any]:
    """The template of the Deployment."""
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(spec.engine.drain_timeout_s) + GRACE_MARGIN_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(spec, image)],
        "volumes": [volume for volume, _ in _volumes(spec)],
        **_placement(spec),
    }
    annotations = {ADMIN_KEYS_HASH_ANNOTATION: digest(admin_keys)}
    template = {"metadata": {"labels": labels(spec.name), "annotations": annotations}, "spec": pod}
    annotations[TEMPLATE_HASH_ANNOTATION] = digest(template)
    return template


def template_hash(template: Mapping[str, Any]) -> str | None:
    """The digest that a template, or a pod made of it, carries."""
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    known: str | None = annotations.get(TEMPLATE_HASH_ANNOTATION)
    return known


def _container(spec: ServiceSpec, image: str) -> dict[str, Any]:
    engine = adapter(spec.engine.runtime)
    return {
        "name": CONTAINER,
        "image": image,
        "args": [escaped(argument) for argument in engine.arguments(spec)],
        "env": list(engine.environment(spec)),
        "ports": [
            {"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"},
            {"name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP"},
        ],
        **engine.probes(spec),
        "lifecycle": {"preStop": {"sleep": {"seconds": ENDPOINT_REMOVAL_S}}},
        **_resources(spec),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # What the engine said last stands in the pod's status, and from there in ours.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount for _, mount in _volumes(spec)],
    }


def escaped(argument: str) -> str:
    """An argument that Kubernetes takes as it is: `$(NAME)` would be replaced by an environment variable."""
    return argument.replace("$", "$$")


def _resources(spec: ServiceSpec) -> dict[str, Any]:
    limits = dict(spec.engine.limits)
    if spec.engine.gpu_count:
        limits["nvidia.com/gpu"] = str(spec.engine.gpu_count)
    amounts = {"requests": dict(spec.engine.requests), "limits": limits}
    given = {name: values for name, values in amounts.items() if values}
    return {"resources": given} if given else {}


def _volumes(spec: ServiceSpec) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each volume with its mount. No `subPath`: it would not follow a ConfigMap."""
    volumes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (
            {"name": "config", "configMap": {"name": engine_name(spec.name), "defaultMode": 0o444}},
            {"name": "config", "mountPath": CONFIG_MOUNT_PATH, "readOnly": True},
        ),
        (
            {"name": "tmp", "emptyDir": {"sizeLimit": SCRATCH_SIZE_LIMIT}},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
        ),
    ]
    if spec.engine.gpu_count:
        memory = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
        volumes.append((memory, {"name": "shm", "mountPath": "/dev/shm"}))  # noqa: S108 - the pod's own
    claim = claim_name(spec.model.uri)
    if claim is not None:
        source = {"claimName": claim, "readOnly": True}
        mount = {"name": "models", "mountPath": MODELS_MOUNT_PATH, "readOnly": True}
        volumes.append(({"name": "models", "persistentVolumeClaim": source}, mount))
    return volumes


def _placement(spec: ServiceSpec) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "runtimeClassName": spec.engine.runtime_class_name,
        "nodeSelector": dict(spec.placement.node_selector),
        "tolerations": [_toleration(toleration) for toleration in spec.placement.tolerations],
        "priorityClassName": spec.placement.priority_class_name,
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
