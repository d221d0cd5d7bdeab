"""Image archives in the OCI layout, written by hand: an image is two small JSON documents and a tar a layer.

Archives are the same to the byte for the same content, so that an import of what is there already does
nothing.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEDIA_TYPE = "application/vnd.oci.image"
# Go's names for the machines that Python calls otherwise.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Layer:
    """The file system of a small image; every path is absolute, parents come before what is in them."""

    directories: Mapping[str, int] = field(default_factory=dict)  # path -> mode
    files: Mapping[str, tuple[bytes, int]] = field(default_factory=dict)  # path -> content, mode
    symlinks: Mapping[str, str] = field(default_factory=dict)  # path -> target

    def tar(self) -> bytes:
        """The layer as an uncompressed tar, owned by root, without times."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, mode in self.directories.items():
                archive.addfile(_entry(path, mode, tarfile.DIRTYPE))
            for path, target in self.symlinks.items():
                link = _entry(path, 0o777, tarfile.SYMTYPE)
                link.linkname = target
                archive.addfile(link)
            for path, (content, mode) in self.files.items():
                file = _entry(path, mode, tarfile.REGTYPE)
                file.size = len(content)
                archive.addfile(file, io.BytesIO(content))
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Image:
    """A one-layer image and what runs in it by default."""

    reference: str
    layer: Layer
    entrypoint: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""


def write_archive(image: Image, machine: str, target: Path) -> Path:
    """Write the image, built for `machine` (as `platform.machine()` says it), as an OCI archive."""
    layer = image.layer.tar()
    platform = {"architecture": ARCHITECTURES.get(machine, machine), "os": "linux"}
    config = _json(
        {
            **platform,
            "config": {
                "Entrypoint": list(image.entrypoint),
                "Env": [f"{name}={value}" for name, value in image.environment.items()],
                "User": image.user,
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
            "config": _descriptor(f"{MEDIA_TYPE}.config.v1+json", config),
            "layers": [_descriptor(f"{MEDIA_TYPE}.layer.v1.tar", layer)],
        }
    )
    named = {
        "io.containerd.image.name": image.reference,
        "org.opencontainers.image.ref.name": image.reference,
    }
    described = {
        **_descriptor(f"{MEDIA_TYPE}.manifest.v1+json", manifest),
        "platform": platform,
        "annotations": named,
    }
    contents = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [described]}),
        **{f"blobs/sha256/{_digest(blob)[7:]}": blob for blob in (config, manifest, layer)},
    }
    archive = Layer(files={path: (content, 0o644) for path, content in contents.items()})
    target.write_bytes(archive.tar())
    return target


def _entry(path: str, mode: int, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.mode, entry.type = mode, kind
    return entry


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
