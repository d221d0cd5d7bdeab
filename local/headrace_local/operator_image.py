"""The operator's image, built for real from the Dockerfile, without a container daemon or a registry.

A Debian base comes from debootstrap and the wheels from the machine's own pip; buildah then builds offline.
Each lies in the cache under a digest of all that goes into it and is found there the next time.
"""

import hashlib
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from headrace_local import debian_base, wheelhouse
from headrace_local.image_cache import cached, run
from headrace_local.progress import Phases

OPERATOR_IMAGE = "headrace.local/operator:dev"
CHECKOUT = Path(__file__).resolve().parents[2]
# What the Dockerfile copies, and the Dockerfile.
CONTEXT = ("Dockerfile", "LICENSE", "README.md", "pyproject.toml", "requirements", "engine", "operator")
LOCKS = ("requirements/build.txt", "requirements/operator.txt")
PROGRAMS = {"buildah": "buildah", **debian_base.PROGRAMS}
_UNTRACKED = ("__pycache__", "*.pyc", "*.egg-info")


def missing_packages() -> list[str]:
    """The Debian packages that a build needs and that are not installed."""
    lacking = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    return sorted(lacking | set(debian_base.missing_keyring()))


def build_operator_image(phases: Phases) -> Path:
    """The OCI archive of the operator's image for this checkout. Raises `Missing` where it cannot be."""
    base = debian_base.build(phases)
    wheels = wheelhouse.fill([CHECKOUT / lock for lock in LOCKS], phases)
    inputs = (platform.machine(), base.parent.name, wheels.parent.name, context_digest(CHECKOUT))
    return cached(
        "operator",
        inputs,
        "operator.tar",
        lambda archive: _build(archive, base, wheels),
        phases.phase("building the operator's image", expected="about a minute, after each change of it"),
    )


def context_digest(checkout: Path) -> str:
    """Changes with every byte that the image is built from."""
    digest = hashlib.sha256()
    for file in _files(checkout):
        digest.update(f"\0{file.relative_to(checkout)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _files(checkout: Path) -> Sequence[Path]:
    entries = [checkout / name for name in CONTEXT]
    found = [file for entry in entries for file in ([entry] if entry.is_file() else entry.rglob("*"))]
    return sorted(
        file
        for file in found
        if file.is_file() and not any(part.match(pattern) for part in file.parents for pattern in _UNTRACKED)
    )


def _build(archive: Path, base: Path, wheels: Path) -> None:
    work = archive.parent
    context = work / "context"
    for file in _files(CHECKOUT):
        target = context / file.relative_to(CHECKOUT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    shutil.copytree(wheels, context / "wheelhouse")
    # A store of its own: nothing of this machine's images is read or changed.
    buildah = ["buildah", "--root", str(work / "store"), "--runroot", str(work / "run")]
    arguments = ["--build-arg", f"BASE=oci-archive:{base}", "--build-arg", "PIP_NO_INDEX=1"]
    build = [
        "bud",
        "--layers=false",
        "--target",
        "operator",
        *arguments,
        "--tag",
        OPERATOR_IMAGE,
        str(context),
    ]
    environment = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
    run([*buildah, *build], environment, "buildah could not build the operator's image")
    push = ["push", "--quiet", OPERATOR_IMAGE, f"oci-archive:{archive}:{OPERATOR_IMAGE}"]
    run([*buildah, *push], environment, "buildah could not write the operator's image")
