"""The story on the cluster of this machine: brought up, with the operator's image and the models in it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from headrace_engine.runner.cache import models_directory
from headrace_local import lifecycle
from headrace_local.cluster import Cluster
from headrace_local.operator_image import build_operator_image
from headrace_local.progress import Phases, duration
from headrace_local.state import DEFAULT_NAME
from headrace_local.story.api import Api
from headrace_local.story.failure import StoryFailed
from headrace_local.story.narrator import Narrator
from headrace_local.story.stage import CHECKOUT, EXAMPLE
from headrace_local.story.tools import Tools


@dataclass(frozen=True, slots=True)
class LocalVenue:
    """The local cluster. Services are reached by their own addresses, which this machine routes."""

    cluster: Cluster
    operator_build: str
    """Names the build behind the operator's tag, which stays the same."""
    shown_manifest: str = "examples/chat.yaml"
    removal: str = ".venv/bin/headrace local down"

    @property
    def tools(self) -> Tools:
        """The cluster's own kubectl and helm."""
        path = self.cluster.binaries.directory
        return Tools(
            kubectl_command=(str(self.cluster.binaries["kubectl"]),),
            helm_command=(str(self.cluster.binaries["helm"]),),
            environment=self.cluster.environment(),
            typed="kubectl",
            typed_helm="helm",
            typed_first=f"export KUBECONFIG={self.cluster.kubeconfig} PATH={path}:$PATH",
        )

    @property
    def manifest(self) -> dict[str, Any]:
        """The example as it stands."""
        manifest: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
        return manifest

    def chart_values(self) -> list[str]:
        """What the local cluster sets, and the build, so that another one replaces the pods."""
        values = ["--values", str(CHECKOUT / "local" / "values.yaml")]
        return [*values, "--set-string", f"podAnnotations.build={self.operator_build}"]

    def reader_steps(self, base_url: str) -> tuple[list[str], str]:
        """The cluster's kubectl and helm, for the reader's shell."""
        return [self.tools.typed_first], base_url

    @contextmanager
    def address(self, api: Api, namespace: str, name: str) -> Iterator[str]:
        """The Service's cluster IP."""
        service = api.get(f"/api/v1/namespaces/{namespace}/services/{name}")
        if service is None:
            raise StoryFailed(f"a Service {name}", "none", f"kubectl -n {namespace} get services")
        yield f"http://{service['spec']['clusterIP']}:8000/v1"


class Told(Phases):
    """The phases of the cluster's own work, told as lines of the story."""

    def __init__(self, narrator: Narrator) -> None:
        super().__init__(quiet=True)
        self._narrator = narrator

    def note(self, text: str) -> None:
        """One line, now."""
        self._narrator.tell(text)

    @contextmanager
    def phase(self, title: str, *, expected: str = "") -> Iterator[None]:
        """A line before what takes long, and one after."""
        if expected:
            self._narrator.tell(f"{title} ({expected}) ...")
        began_s = time.monotonic()
        yield
        self._narrator.tell(f"{title}: {duration(time.monotonic() - began_s)}")


def open_local(narrator: Narrator, *, name: str = DEFAULT_NAME) -> LocalVenue:
    """Chapter: a cluster stands. Raises `Missing` or `ClusterError` where this machine cannot."""
    narrator.chapter("A Kubernetes on this machine")
    cluster = lifecycle.up(name, phases=Told(narrator))
    venue = stock(cluster, narrator)
    narrator.news("API server, scheduler, node, DNS and Services answer")
    return venue


def stock(cluster: Cluster, narrator: Narrator) -> LocalVenue:
    """Brings the models and the operator's image into a cluster that stands."""
    phases = Told(narrator)
    with phases.phase("models for pods"):
        cluster.provide_models(models_directory())
    with phases.phase("operator image built from the Dockerfile and imported"):
        archive = build_operator_image(phases)
        cluster.load_image(archive)
    return LocalVenue(cluster, archive.parent.name)
