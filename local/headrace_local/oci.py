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
    blobs = {_place(blob): blob for blob in (config, manifest, layer)}
    return _write(_layout(manifest, platform, image.reference) | blobs, target)


def add_layer(archive: Path, layer: Layer, reference: str, target: Path) -> Path:
    """Write an OCI archive of the one image of `archive` with `layer` on top, under the name `reference`."""
    with tarfile.open(archive) as image:
        blobs = [name for name in image.getnames() if name.startswith("blobs/sha256/")]
        contents = {name: _content(image, name) for name in blobs}
        index = json.loads(_content(image, "index.json"))
    added = layer.tar()
    manifest = json.loads(contents.pop(_blob(index["manifests"][0]["digest"])))
    config = json.loads(contents.pop(_blob(manifest["config"]["digest"])))
    config["rootfs"]["diff_ids"].append(_digest(added))
    config.setdefault("history", []).append({"created_by": f"layer of {reference}"})
    manifest["config"] = _descriptor(manifest["config"]["mediaType"], _json(config))
    manifest["layers"].append(_descriptor(f"{MEDIA_TYPE}.layer.v1.tar", added))
    for blob in (_json(config), _json(manifest), added):
        contents[_place(blob)] = blob
    platform = {"architecture": config["architecture"], "os": config["os"]}
    contents |= _layout(_json(manifest), platform, reference)
    return _write(contents, target)


def _blob(digest: str) -> str:
    """Where an archive keeps the content with this digest."""
    return f"blobs/{digest.replace(':', '/')}"


def _place(content: bytes) -> str:
    return _blob(_digest(content))


def _content(image: tarfile.TarFile, name: str) -> bytes:
    file = image.extractfile(name)
    return file.read() if file is not None else b""


def _layout(manifest: bytes, platform: Mapping[str, str], reference: str) -> dict[str, bytes]:
    """The two files by which an archive's reader finds its image."""
    named = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference}
    described = {
        **_descriptor(f"{MEDIA_TYPE}.manifest.v1+json", manifest),
        "platform": dict(platform),
        "annotations": named,
    }
    return {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [described]}),
    }


def _write(contents: Mapping[str, bytes], target: Path) -> Path:
    archive = Layer(files={path: (content, 0o644) for path, content in contents.items() if content})
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
