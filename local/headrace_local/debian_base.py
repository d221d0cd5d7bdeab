"""The image that the operator's is built on: a minimal Debian with Python, as an OCI archive.

On a Debian machine it comes from the mirror that apt uses; elsewhere from debootstrap's own default.
"""

import platform
import shutil
import subprocess
from pathlib import Path

from headrace_local.image_cache import cached, run
from headrace_local.progress import Phases

SUITE = "bookworm"
PACKAGES = ("python3", "python3-venv")
RECIPE = "1"
"""Counts changes of how a base is made, so that cached ones are made again."""
PROGRAMS = {"debootstrap": "debootstrap", "buildah": "buildah", "setpriv": "util-linux"}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Refreshed or rebuilt by whoever needs it, and different in each build.
_VOLATILE = ("var/cache/apt", "var/lib/apt/lists", "var/log")
_REFERENCE = "headrace.local/base:dev"


def missing_keyring() -> list[str]:
    """The package of the keys that a Debian mirror is checked with, where it is not installed."""
    return [] if KEYRING.exists() else ["debian-archive-keyring"]


def build(phases: Phases) -> Path:
    """The base's OCI archive. Raises `Missing` where no mirror answers."""
    return cached(
        "base",
        (platform.machine(), SUITE, *PACKAGES, RECIPE),
        "base.tar",
        _build,
        phases.phase("building the image's Debian base", expected="about a minute, once"),
    )


def _build(archive: Path) -> None:
    work = archive.parent
    root = work / "root"
    include = f"--include={','.join(PACKAGES)}"
    command = [
        "debootstrap",
        "--variant=minbase",
        include,
        f"--keyring={KEYRING}",
        SUITE,
        str(root),
        *_mirror(),
    ]
    run(command, {}, "debootstrap could not make a Debian base (does the package mirror answer?)")
    for directory in _VOLATILE:
        shutil.rmtree(root / directory)
        (root / directory).mkdir()
    (work / "Dockerfile").write_text("FROM scratch\nCOPY root /\n")
    buildah = ["buildah", "--root", str(work / "store"), "--runroot", str(work / "run")]
    environment = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
    complaint = "buildah could not make an image of the Debian base"
    run([*buildah, "bud", "--layers=false", "--tag", _REFERENCE, str(work)], environment, complaint)
    run([*buildah, "push", "--quiet", _REFERENCE, f"oci-archive:{archive}"], environment, complaint)


def _mirror() -> list[str]:
    """The URI of apt's own mirror for the suite, if this machine is of that suite."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", f"Release: {SUITE}"],
        check=False,
        capture_output=True,
        text=True,
    )
    uris = [line for line in listed.stdout.split() if line.startswith(("http://", "https://"))]
    return uris[:1]
