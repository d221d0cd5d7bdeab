"""The story on the reader's own cluster, through one kubeconfig context and nothing else."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace_local.dev_runtime import ENGINE_IMAGE
from headrace_local.story.api import Api
from headrace_local.story.failure import StoryFailed
from headrace_local.story.stage import EXAMPLE
from headrace_local.story.tools import Tools


@dataclass(frozen=True, slots=True)
class ContextVenue:
    """A cluster that can pull both images. Services are reached through its API server."""

    context: str
    operator_image: str
    engine_image: str
    file: Path | None = None
    """The reader's own InferenceService; None is the example, freed of what only the local cluster has."""

    @property
    def tools(self) -> Tools:
        """The reader's own kubectl and helm, bound to the context."""
        return Tools(
            kubectl_command=("kubectl", "--context", self.context),
            helm_command=("helm", "--kube-context", self.context),
            environment=os.environ,
            typed=f"kubectl --context {self.context}",
            typed_helm=f"helm --kube-context {self.context}",
        )

    @property
    def shown_manifest(self) -> str:
        """The file's name."""
        return str(self.file or "examples/chat.yaml")

    @property
    def removal(self) -> str:
        """The service and the release; the definition stays."""
        name = self.manifest["metadata"]["name"]
        service = f"{self.tools.typed} delete infs {name}"
        return f"{service} && {self.tools.typed_helm} uninstall headrace -n headrace-system"

    @property
    def manifest(self) -> dict[str, Any]:
        """The reader's file as it is, or the example with the reader's engine image."""
        manifest: dict[str, Any] = yaml.safe_load((self.file or EXAMPLE).read_text())
        engine = manifest["spec"]["engine"]
        if engine.get("image") == ENGINE_IMAGE and self.engine_image != ENGINE_IMAGE:
            engine["image"] = self.engine_image
            engine.pop("runtimeClassName", None)
        return manifest

    def chart_values(self) -> list[str]:
        """The reader's images."""
        image, _, digest = self.operator_image.partition("@")
        repository, colon, tag = image.rpartition(":")
        if not colon or "/" in tag:
            repository, tag = image, "latest"
        values = {"image.repository": repository, "image.tag": tag, "image.digest": digest}
        values["engine.image"] = self.engine_image
        return [
            part for name, value in values.items() if value for part in ("--set-string", f"{name}={value}")
        ]

    def reader_steps(self, _base_url: str) -> tuple[list[str], str]:
        """A port-forward, in another terminal."""
        name = self.manifest["metadata"]["name"]
        return [f"{self.tools.typed} port-forward svc/{name} 8000:8000 &"], "http://127.0.0.1:8000/v1"

    @contextmanager
    def address(self, _api: Api, namespace: str, name: str) -> Iterator[str]:
        """The Service behind the API server's own proxy, which picks a ready pod for every request.

        A port-forward would stay with one pod, and break when that one is removed. Nothing but this Service
        is open on the local port.
        """
        path = f"/api/v1/namespaces/{namespace}/services/{name}:8000/proxy/v1"
        accepted = f"^{path}/(models|completions|chat/completions)$"
        with self.tools.proxy("--port=0", f"--accept-paths={accepted}") as served:
            yield f"http://{served}{path}"

    def check(self, namespace: str) -> None:
        """Raises `StoryFailed` where the context does not answer, or the model's claim is not there."""
        self.tools.kubectl("version", timeout_s=20)
        scheme, _, place = self.manifest["spec"]["model"]["uri"].partition("://")
        if scheme != "pvc":
            return
        claim, _, directory = place.partition("/")
        try:
            self.tools.kubectl("-n", namespace, "get", "persistentvolumeclaim", claim)
        except StoryFailed as failure:
            expected = f"a claim {claim} in namespace {namespace} that holds the model {directory}"
            raise StoryFailed(expected, failure.seen, "docs/local.md, on --context") from failure
