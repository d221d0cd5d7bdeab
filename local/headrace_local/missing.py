"""What a machine must have before anything is built or started, each told in one sentence.

The checks run from the cheapest and most final to the most easily cured.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CNI_DIRECTORIES = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))

# Debian's package of each program (a program the node needs -> the package that brings it).
PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
}
CNI_PLUGINS = ("ptp", "host-local", "portmap", "loopback")
CNI_PACKAGE = "containernetworking-plugins"
# What the control plane alone needs.
CONTROL_PLANE_PROGRAMS = ("ip", "nsenter", "unshare", "mount")


class Missing(Exception):  # noqa: N818 - it is said of the machine, and read as a sentence
    """The machine lacks something; the message is one sentence that says what, and what to do."""


def require_linux_root() -> None:
    """Raise `Missing` unless this is Linux and the user is root."""
    if sys.platform != "linux":
        raise Missing(f"The local cluster needs Linux (namespaces and cgroups), and this is {sys.platform}.")
    if os.geteuid() != 0:
        raise Missing(
            "The local cluster needs root (it makes network namespaces and cgroups): run it with sudo."
        )


def go_command() -> str:
    """The Go command's path; raises `Missing` where there is none."""
    found = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if found is None:
        raise Missing(
            "Go 1.24 or newer is needed to build Kubernetes: install it from go.dev/dl and put it on PATH."
        )
    return found


def cni_directory() -> Path | None:
    """Where the CNI plugins lie; None where one of those needed is missing."""
    for directory in CNI_DIRECTORIES:
        if all(os.access(directory / plugin, os.X_OK) for plugin in CNI_PLUGINS):
            return directory
    return None


def missing_packages(*, node: bool = True) -> list[str]:
    """The Debian packages whose programs are not installed, sorted; empty when all is there."""
    programs = PACKAGES if node else CONTROL_PLANE_PROGRAMS
    lacking = {PACKAGES[program] for program in programs if shutil.which(program) is None}
    if node and cni_directory() is None:
        lacking.add(CNI_PACKAGE)
    return sorted(lacking)


def install_packages(packages: list[str]) -> None:
    """Install Debian packages without their recommendations; raises `Missing` where apt cannot."""
    if not packages:
        return
    if shutil.which("apt-get") is None:
        raise Missing(
            f"This is not a Debian-like machine (no apt-get); install by hand: {', '.join(packages)}."
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", *command],
            env=environment,
            check=False,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Missing(
                f"apt-get could not {command[0]} ({', '.join(packages)}): {said[-1] if said else 'no reason'}"
            )


def require(*, node: bool) -> None:
    """Raise `Missing` for the first thing that a cluster of this depth lacks."""
    require_linux_root()
    go_command()
    if lacking := missing_packages(node=node):
        raise Missing(
            f"Debian packages are missing: install them with `apt-get install {' '.join(lacking)}`."
        )
