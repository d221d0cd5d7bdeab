"""The runtime of engine pods on a developer's machine: the machine's own Python environment, mounted.

An engine image with torch is gigabytes that change with every edit. Here its place is taken by an image of a
few empty directories, and the containers of the runtime class `headrace-dev` see `/usr`, the interpreter, the
virtual environment and the checkout's engine, read-only. Pods need no hostPath for it and stay as restricted
as they are. Other pods run in the plain runtime and see nothing of the machine.
"""

import os
import stat
import sys
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace_local.containerd import DEV_RUNTIME, bind_mount
from headrace_local.missing import Missing
from headrace_local.oci import Image, Layer

ENGINE_IMAGE = "headrace.local/engine:dev"
ENGINE_USER_ID = 65532
SOURCE_ROOTS = ("engine", "operator")
# One place wherever the checkout lies: under its own name, one below /tmp would be hidden by a pod's own.
HOME = Path("/opt/headrace")
_PODS_OWN = Path("/tmp")
_SYSTEM = Path("/usr")
# What programs of /usr look up elsewhere. Without the linker's cache, Python compiles to find libraries.
_SYSTEM_CONFIGURATION = (Path("/etc/alternatives"), Path("/etc/ssl"), Path("/etc/ld.so.cache"))


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment, the interpreter beneath it, and the checkout that is installed in it."""

    prefix: Path
    interpreter: Path
    checkout: Path

    @classmethod
    def current(cls) -> "Environment":
        """That of this very process."""
        checkout = Path(__file__).resolve().parents[2]
        return cls(Path(sys.prefix), Path(sys.base_prefix), checkout)

    @property
    def seen_prefix(self) -> Path:
        """Where pods see the virtual environment; a Python without one stays where it is."""
        return HOME / "venv" if (self.prefix / "pyvenv.cfg").exists() else self.prefix

    def mounts(self) -> dict[Path, Path]:
        """What is mounted, by where pods see it: the checkout's below `HOME`, the rest under its own name."""
        own = {HOME / root: self.checkout / root for root in SOURCE_ROOTS}
        return {path: path for path in self._kept_names()} | own | {self.seen_prefix: self.prefix}

    def _kept_names(self) -> list[Path]:
        python = self.prefix / "bin" / "python"
        wanted = [_SYSTEM, self.interpreter, self.interpreter.resolve(), python.resolve().parents[1]]
        if python.is_symlink():
            # uv links to a name of the interpreter that is a link itself: that name must be there too.
            wanted.append(Path(os.path.normpath(python.parent / python.readlink())).parents[1])
        wanted += [path for path in _SYSTEM_CONFIGURATION if path.exists()]
        return _outermost(wanted)

    def require_readable(self) -> None:
        """Raise `Missing` where the engine's user could not read what would be mounted."""
        for path in self.mounts().values():
            require_readable_by_all(path)
        for path in self.mounts():
            if path.is_relative_to(_PODS_OWN):
                raise Missing(
                    f"Pods have a {_PODS_OWN} of their own and would not see {path}: use another Python."
                )


def dev_runtime_spec(default: dict[str, Any], environment: Environment) -> dict[str, Any]:
    """Containerd's default specification with the environment mounted and the machine's own file limits."""
    spec = deepcopy(default)
    spec["process"].pop("rlimits", None)
    for seen, path in environment.mounts().items():
        spec["mounts"].append(bind_mount(path.resolve(), seen))
    return spec


def engine_image(environment: Environment) -> Image:
    """The small root that the environment is mounted into; it starts `headrace`, as the real image does."""
    system = ("/etc", "/dev", "/proc", "/sys", "/run", "/usr", "/var", "/home", "/opt")
    directories = dict.fromkeys((*system, str(HOME), str(HOME / "bin")), 0o755)
    python = environment.seen_prefix / "bin" / "python"
    command = f"#!{python}\nimport sys\nfrom headrace_cli.main import main\nsys.exit(main())\n"
    user = f"headrace:x:{ENGINE_USER_ID}:{ENGINE_USER_ID}::/tmp:/usr/sbin/nologin\n"
    files = {
        "/etc/passwd": f"root:x:0:0::/root:/usr/sbin/nologin\n{user}",
        "/etc/group": f"root:x:0:\nheadrace:x:{ENGINE_USER_ID}:\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }
    return Image(
        reference=ENGINE_IMAGE,
        layer=Layer(
            directories={**directories, "/tmp": 0o1777},
            files={path: (content.encode(), 0o644) for path, content in files.items()}
            | {f"{HOME}/bin/headrace": (command.encode(), 0o755)},
            symlinks={f"/{name}": f"usr/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64")},
        ),
        entrypoint=("headrace",),
        environment={
            "PATH": f"{HOME}/bin:{environment.seen_prefix}/bin:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": ":".join(str(HOME / root) for root in SOURCE_ROOTS),
            "HOME": "/tmp",
            "VIRTUAL_ENV": str(environment.seen_prefix),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        },
        user=f"{ENGINE_USER_ID}:{ENGINE_USER_ID}",
    )


def runtime_class() -> dict[str, Any]:
    """The Kubernetes object that lets a pod ask for this runtime."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": DEV_RUNTIME},
        "handler": DEV_RUNTIME,
    }


def require_readable_by_all(path: Path) -> None:
    """Raise `Missing` where a container's user, who is nobody on this machine, could not read it."""
    needed = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    if path.stat().st_mode & needed != needed:
        raise Missing(f"Pods run as nobody and could not read {path}: allow it with `chmod -R o+rX {path}`.")


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """The given directories without those that lie in another of them, sorted."""
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(outer) for outer in kept):
            kept.append(path)
    return kept
