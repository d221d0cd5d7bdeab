"""The volumes of an engine's pod, each with its mount: configuration, scratch space, the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace_operator.api.names import (
    CACHE_MOUNT_PATH,
    CONFIG_MOUNT_PATH,
    MODELS_MOUNT_PATH,
    engine_name,
)
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.runtimes.model_path import claim_name

SCRATCH_SIZE_LIMIT = "4Gi"
_CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of the pod, and where its containers see it. No `subPath`: it would not follow a ConfigMap."""

    name: str
    source: dict[str, Any]
    path: str
    is_read_only: bool = False
    is_for_fetching: bool = False
    """Whether the container that downloads the model sees it too."""

    @property
    def manifest(self) -> dict[str, Any]:
        return {"name": self.name, **self.source}

    @property
    def mount(self) -> dict[str, Any]:
        read_only = {"readOnly": True} if self.is_read_only else {}
        return {"name": self.name, "mountPath": self.path, **read_only}


def volumes(spec: ServiceSpec) -> tuple[Volume, ...]:
    """All of them."""
    config = {"configMap": {"name": engine_name(spec.name), "defaultMode": 0o444}}
    scratch = {"emptyDir": {"sizeLimit": SCRATCH_SIZE_LIMIT}}
    return (
        Volume("config", config, CONFIG_MOUNT_PATH, is_read_only=True),
        Volume("tmp", scratch, "/tmp", is_for_fetching=True),  # noqa: S108 - the pod's own
        *_shared_memory(spec),
        *_model(spec),
    )


def keeps_downloads(template: Mapping[str, Any]) -> bool:
    """Whether pods of the template download their model."""
    return any(volume.get("name") == _CACHE for volume in template["spec"].get("volumes") or ())


def _shared_memory(spec: ServiceSpec) -> tuple[Volume, ...]:
    count = spec.engine.gpu_count
    memory = {"emptyDir": {"medium": "Memory", "sizeLimit": f"{count}Gi"}}
    return (Volume("shm", memory, "/dev/shm"),) if count else ()  # noqa: S108 - the pod's own


def _model(spec: ServiceSpec) -> tuple[Volume, ...]:
    claim = claim_name(spec.model.uri)
    if claim is not None:
        source = {"persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        return (Volume("models", source, MODELS_MOUNT_PATH, is_read_only=True),)
    if not spec.model.is_downloaded:
        return ()
    cache = spec.model.cache
    kept: dict[str, Any] = {"emptyDir": {"sizeLimit": cache.size}}
    if cache.claim_name is not None:
        kept = {"persistentVolumeClaim": {"claimName": cache.claim_name}}
    return (Volume(_CACHE, kept, CACHE_MOUNT_PATH, is_for_fetching=True),)
