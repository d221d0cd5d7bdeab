"""The containers of an engine's pod: the engine, and before it, where there is one, the model's download.

argv is a list and no shell reads it. Text of the spec stands in it as it is: `$` is written so that
Kubernetes replaces nothing.
"""

from typing import Any

from headrace_operator.api.names import ADMIN_PORT, CONTAINER, FETCH_CONTAINER, HTTP_PORT
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.render.volumes import volumes
from headrace_operator.runtimes.registry import adapter

ENDPOINT_REMOVAL_S = 3
"""A deleted pod goes on serving so long, until no Service sends it requests any more."""
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def engine_container(spec: ServiceSpec, image: str) -> dict[str, Any]:
    """The engine."""
    engine = adapter(spec.engine.runtime)
    ports = [{"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"}]
    if engine.changes_limits_live or engine.drains_by_call:
        ports.append({"name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP"})
    return {
        "name": CONTAINER,
        "image": image,
        **({"command": list(engine.command)} if engine.command else {}),
        "args": [escaped(argument) for argument in engine.arguments(spec)],
        "env": [*_declared(spec), *engine.environment(spec)],
        "ports": ports,
        **engine.probes(spec),
        "lifecycle": {"preStop": {"sleep": {"seconds": ENDPOINT_REMOVAL_S}}},
        **_resources(spec, gpus=spec.engine.gpu_count),
        "securityContext": _RESTRICTED,
        # What the engine said last stands in the pod's status, and from there in ours.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [volume.mount for volume in volumes(spec)],
    }


def fetch_container(spec: ServiceSpec, image: str) -> dict[str, Any] | None:
    """What puts the model where the engine finds it; None where nothing has to."""
    fetch = adapter(spec.engine.runtime).fetch(spec)
    if fetch is None:
        return None
    return {
        "name": FETCH_CONTAINER,
        "image": image,
        "args": [escaped(argument) for argument in fetch.arguments],
        "env": [*_declared(spec), *fetch.environment],
        **_resources(spec, gpus=0),
        "securityContext": _RESTRICTED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [volume.mount for volume in volumes(spec) if volume.is_for_fetching],
    }


def escaped(text: str) -> str:
    """Text that Kubernetes takes as it is: `$(NAME)` would be replaced by an environment variable."""
    return text.replace("$", "$$")


def _declared(spec: ServiceSpec) -> list[dict[str, Any]]:
    """Before the engine's own, which a declared one cannot replace."""
    return [{"name": name, "value": escaped(value)} for name, value in spec.engine.env]


def _resources(spec: ServiceSpec, *, gpus: int) -> dict[str, Any]:
    limits = dict(spec.engine.limits)
    if gpus:
        limits["nvidia.com/gpu"] = str(gpus)
    amounts = {"requests": dict(spec.engine.requests), "limits": limits}
    given = {name: values for name, values in amounts.items() if values}
    return {"resources": given} if given else {}
