"""The API server as the story reads it: cheap GETs through `kubectl proxy`, which can log in anywhere."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from headrace_local.story.service import ServiceView
from headrace_local.story.tools import Tools

GROUP_PATH = "/apis/headrace.dev/v1alpha1"


@dataclass(frozen=True, slots=True)
class Api:
    """Reads objects. One that is not there is None."""

    http: httpx.Client

    def get(self, path: str) -> dict[str, Any] | None:
        """The JSON at an API path; None where it or the server is not there."""
        text = self._text(path)
        return None if text is None else json.loads(text)

    def service(self, namespace: str, name: str) -> ServiceView | None:
        """An InferenceService."""
        document = self.get(f"{GROUP_PATH}/namespaces/{namespace}/inferenceservices/{name}")
        return None if document is None else ServiceView.of(document)

    def pods(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """The pods that a label selector finds; none where the server does not answer."""
        found = self.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")
        return found["items"] if found else []

    def gauge(self, namespace: str, pod: str, name: str) -> float | None:
        """The sum of an engine's samples of one gauge; None where the pod or the gauge does not answer."""
        text = self._text(f"/api/v1/namespaces/{namespace}/pods/{pod}:8000/proxy/metrics")
        if text is None:
            return None
        families = (family for family in text_string_to_metric_families(text) if family.name == name)
        values = [sample.value for family in families for sample in family.samples]
        return sum(values) if values else None

    def _text(self, path: str) -> str | None:
        try:
            response = self.http.get(path)
        except httpx.TransportError:
            return None
        return response.text if response.is_success else None


@contextmanager
def open_api(tools: Tools) -> Iterator[Api]:
    """The API for the length of the block, on a socket that only this user can open."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as directory:
        socket = Path(directory) / "api.sock"
        with tools.proxy(f"--unix-socket={socket}"):
            transport = httpx.HTTPTransport(uds=str(socket))
            with httpx.Client(transport=transport, base_url="http://localhost", timeout=5.0) as http:
                yield Api(http)
