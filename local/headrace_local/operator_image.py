"""The operator's image without a container daemon or a registry: what it needs from the Dockerfile, built for
real, and the checkout's own packages as a layer on top, which takes seconds.

A Debian base comes from debootstrap and the wheels from the machine's own pip; buildah then builds offline.
Each lies in the cache under a digest of all that goes into it and is found there the next time. The whole
Dockerfile is built by `build_from_dockerfile`: a test compares the two.
"""

import hashlib
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from headrace_local import debian_base, own_layer, wheelhouse
from headrace_local.image_cache import cached, run
from headrace_local.oci import add_layer
from headrace_local.progress import Phases

OPERATOR_IMAGE = "headrace.local/operator:dev"
CHECKOUT = Path(__file__).resolve().parents[2]
# What the Dockerfile copies, and the Dockerfile.
CONTEXT = ("Dockerfile", "LICENSE", "README.md", "pyproject.toml", "requirements", "engine", "operator")
LOCKS = ("requirements/build.txt", "requirements/operator.txt")
PROGRAMS = {"buildah": "buildah", **debian_base.PROGRAMS}
_DEPENDENCIES = ("Dockerfile", "LICENSE", "requirements")
_UNTRACKED = ("__pycache__", "*.pyc", "*.egg-info")


def missing_packages() -> list[str]:
    """The Debian packages that a build needs and that are not installed."""
    lacking = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    return sorted(lacking | set(debian_base.missing_keyring()))


def build_operator_image(phases: Phases) -> Path:
    """The OCI archive of the operator's image for this checkout. Raises `Missing` where it cannot be."""
    base, wheels = _ingredients(phases)
    dependencies = cached(
        "dependencies",
        (platform.machine(), base.parent.name, wheels.parent.name, context_digest(CHECKOUT, _DEPENDENCIES)),
        "dependencies.tar",
        lambda archive: _build("operator-dependencies", archive, base, wheels, _DEPENDENCIES),
        phases.phase("building what the operator's image needs", expected="about a minute, once"),
    )
    return cached(
        "operator",
        (dependencies.parent.name, context_digest(CHECKOUT)),
        "operator.tar",
        lambda archive: _add_own_layer(archive, dependencies, wheels),
        phases.phase("building the operator's image", expected="a few seconds, after each change of it"),
    )


def build_from_dockerfile(phases: Phases) -> Path:
    """The OCI archive of the Dockerfile's target `operator`, for this checkout."""
    base, wheels = _ingredients(phases)
    return cached(
        "dockerfile",
        (platform.machine(), base.parent.name, wheels.parent.name, context_digest(CHECKOUT)),
        "operator.tar",
        lambda archive: _build("operator", archive, base, wheels, CONTEXT),
        phases.phase("building the Dockerfile", expected="about a minute, after each change"),
    )


def context_digest(checkout: Path, names: Sequence[str] = CONTEXT) -> str:
    """Changes with every byte that the image is built from."""
    digest = hashlib.sha256()
    for file in _files(checkout, names):
        digest.update(f"\0{file.relative_to(checkout)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _ingredients(phases: Phases) -> tuple[Path, Path]:
    """The Debian base and the wheels."""
    return debian_base.build(phases), wheelhouse.fill([CHECKOUT / lock for lock in LOCKS], phases)


def _files(checkout: Path, names: Sequence[str]) -> Sequence[Path]:
    entries = [checkout / name for name in names]
    found = [file for entry in entries for file in ([entry] if entry.is_file() else entry.rglob("*"))]
    return sorted(
        file
        for file in found
        if file.is_file() and not any(part.match(pattern) for part in file.parents for pattern in _UNTRACKED)
    )


def _copy(names: Sequence[str], context: Path) -> None:
    for file in _files(CHECKOUT, names):
        target = context / file.relative_to(CHECKOUT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _add_own_layer(archive: Path, dependencies: Path, wheels: Path) -> None:
    context = archive.parent / "context"
    _copy(CONTEXT, context)
    wheel = own_layer.build_wheel(context, wheels, archive.parent / "dist")
    add_layer(dependencies, own_layer.layer_of(wheel), OPERATOR_IMAGE, archive)


def _build(target: str, archive: Path, base: Path, wheels: Path, names: Sequence[str]) -> None:
    work = archive.parent
    context = work / "context"
    _copy(names, context)
    shutil.copytree(wheels, context / "wheelhouse")
    # A store of its own: nothing of this machine's images is read or changed.
    buildah = ["buildah", "--root", str(work / "store"), "--runroot", str(work / "run")]
    arguments = ["--build-arg", f"BASE=oci-archive:{base}", "--build-arg", "PIP_NO_INDEX=1"]
    build = ["bud", "--layers=false", "--target", target, *arguments, "--tag", OPERATOR_IMAGE, str(context)]
    environment = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
    run([*buildah, *build], environment, "buildah could not build the operator's image")
    push = ["push", "--quiet", OPERATOR_IMAGE, f"oci-archive:{archive}:{OPERATOR_IMAGE}"]
    run([*buildah, *push], environment, "buildah could not write the operator's image")
