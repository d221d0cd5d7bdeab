"""The Kubernetes programs, built once from Go modules and found again by a digest of their sources.

A build appears in the cache whole or not at all: it is made beside its place and renamed. Builders wait for
each other.
"""

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from headrace_local.cache import cache_directory, exclusively
from headrace_local.missing import Missing, go_command
from headrace_local.progress import Phases

SOURCES = Path(__file__).resolve().parents[1] / "kubernetes"

MULTI_CALL = "headrace-kube"
MULTI_CALL_NAMES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
)


@dataclass(frozen=True, slots=True)
class Module:
    """One Go module below `SOURCES` and the program that it makes."""

    name: str
    program: str
    package: str
    title: str
    expected: str


MODULES = (
    Module("pause", "pause", ".", "pause", ""),
    Module("helm", "helm", "helm.sh/helm/v3/cmd/helm", "Helm", "about 2 min on 2 cores, once"),
    Module("coredns", "coredns", ".", "CoreDNS", "about 2 min on 2 cores, once"),
    Module("cluster", MULTI_CALL, ".", "Kubernetes and etcd", "about 6 min on 2 cores, once"),
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory with every program that a cluster needs."""

    directory: Path

    def __getitem__(self, program: str) -> Path:
        return self.directory / program


def sources_digest(sources: Path, compiler: str) -> str:
    """A name for the build: the same for the same sources, compiler and flags, wherever the checkout lies."""
    digest = hashlib.sha256(compiler.encode())
    for file in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(f"\0{file.relative_to(sources)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def built_binaries() -> Binaries | None:
    """The programs of these sources if the cache has them. Raises `Missing` where there is no Go to ask."""
    directory = _directory(go_command())
    return Binaries(directory) if directory.exists() else None


def ensure_binaries(phases: Phases) -> Binaries:
    """The programs of these sources, built now if the cache lacks them. Raises `Missing` where Go cannot."""
    go = go_command()
    directory = _directory(go)
    if not directory.exists():
        waiting = "another build is under way: waiting for it"
        with exclusively(directory.parent / ".lock", waiting=lambda: phases.note(waiting)):
            if not directory.exists():
                _build(go, directory, phases)
    return Binaries(directory)


def _directory(go: str) -> Path:
    compiler = " ".join([_go_version(go), *(_link_flags(module) for module in MODULES)])
    return cache_directory() / "bin" / sources_digest(SOURCES, compiler)


def _go_version(go: str) -> str:
    # Asked inside the module: an older Go then fetches the toolchain that go.mod names, or says why not.
    asked = subprocess.run(
        [go, "env", "GOVERSION"], cwd=SOURCES / "cluster", check=False, capture_output=True, text=True
    )
    if asked.returncode != 0:
        raise Missing(f"Go cannot build Kubernetes: {asked.stderr.strip()}")
    return asked.stdout.strip()


def _build(go: str, directory: Path, phases: Phases) -> None:
    for unfinished in directory.parent.glob(".building-*"):
        shutil.rmtree(unfinished)
    building = directory.parent / f".building-{directory.name}"
    building.mkdir()
    for module in MODULES:
        with phases.phase(f"building {module.title}", expected=module.expected):
            _build_module(go, module, building / module.program)
    for name in MULTI_CALL_NAMES:
        (building / name).symlink_to(MULTI_CALL)
    building.rename(directory)


def _link_flags(module: Module) -> str:
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in _versions(module).items())])


def _build_module(go: str, module: Module, output: Path) -> None:
    command = [
        go,
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        _link_flags(module),
        "-o",
        str(output),
        module.package,
    ]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    built = subprocess.run(
        command, cwd=SOURCES / module.name, env=environment, check=False, capture_output=True, text=True
    )
    if built.returncode != 0:
        last = "\n".join(built.stderr.strip().splitlines()[-10:])
        raise Missing(f"Go could not build {module.title} (is the module proxy reachable?):\n{last}")


def _versions(module: Module) -> dict[str, str]:
    """The version variables that each project's own build sets: unset, the API server calls itself v0.0.0."""
    version = _required_version("cluster", "k8s.io/kubernetes")
    major, minor, _ = version.removeprefix("v").split(".", 2)
    if module.program == MULTI_CALL:
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        return {f"k8s.io/component-base/version.{name}": value for name, value in values.items()}
    if module.program == "helm":
        # What it takes a cluster for where it asks none: unset, that is Kubernetes 1.20.
        assumed = {
            f"helm.sh/helm/v3/pkg/{package}.k8sVersion{part}": value
            for package in ("chartutil", "lint/rules")
            for part, value in (("Major", major), ("Minor", minor))
        }
        return {
            "helm.sh/helm/v3/internal/version.version": _required_version("helm", "helm.sh/helm/v3"),
            **assumed,
        }
    return {}


def _required_version(module: str, path: str) -> str:
    go_mod = (SOURCES / module / "go.mod").read_text()
    found = re.search(rf"^(?:require|\t) ?{re.escape(path)} (v\S+)", go_mod, re.MULTILINE)
    assert found is not None, f"local/kubernetes/{module}/go.mod requires {path}"
    return found.group(1)
