"""Model weights for pods: a directory of the machine as a claim that is bound before any pod asks for it."""

from pathlib import Path
from typing import Any

from headrace_local.dev_runtime import require_readable_by_all
from headrace_local.sandbox import Sandbox

CLAIM = "models"
_MOUNT_ROOT = "/run/headrace/volumes"

_BIND_READ_ONLY = """
mkdir -p "$2"
if mountpoint -q "$2"; then umount --lazy "$2"; fi
mount --bind "$1" "$2"
mount -o remount,bind,ro,nosuid,nodev "$2"
"""


def show_read_only(sandbox: Sandbox, directory: Path, volume: str) -> str:
    """Bind a directory read-only inside the sandbox, whatever pods ask for; returns its path there."""
    require_readable_by_all(directory)
    inside = f"{_MOUNT_ROOT}/{volume}"
    sandbox.run("sh", "-e", "-c", _BIND_READ_ONLY, "sh", str(directory.resolve()), inside)
    return inside


def volume_name(namespace: str, claim: str) -> str:
    return f"{namespace}-{claim}"


def volume_objects(path: str, namespace: str, claim: str) -> list[dict[str, Any]]:
    """A volume and its claim, each naming the other: the pair is bound without a provisioner."""
    name = volume_name(namespace, claim)
    size = {"storage": "1Ti"}
    common = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            **common,
            "capacity": size,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": claim},
            "hostPath": {"path": path, "type": "Directory"},
        },
    }
    claimed = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": namespace},
        "spec": {**common, "volumeName": name, "resources": {"requests": size}},
    }
    return [volume, claimed]
