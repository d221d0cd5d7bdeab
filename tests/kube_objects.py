"""A cluster's objects by HTTP, as administrator. A kubectl process costs a tenth of a second of a core for
each look, and tests look often.
"""

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import httpx

from headrace_local.cluster import Cluster
from headrace_local.probe import ClusterError
from headrace_operator.kube.kinds import Kind

Object = dict[str, Any]

FIELD_MANAGER = "a-test"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KNOWN_WITHIN_S = 10.0
"""How long a new kind may take from its definition to the API server's list of kinds."""
GONE_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API server serves it."""

    kind: Kind
    is_namespaced: bool

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        return self.kind.path(namespace if self.is_namespaced else None, name, subresource)


@dataclass
class KubeObjects:
    """`kind` is any word that kubectl takes for it. What the server refuses raises `ClusterError`."""

    cluster: Cluster
    _known: dict[str, Resource] = field(default_factory=dict)

    @cached_property
    def _http(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.cluster.url, verify=self.cluster.api.tls, timeout=30, trust_env=False
        )

    def close(self) -> None:
        self._http.close()

    def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        answer = self._http.get(self._resource(kind).path(namespace, name))
        return None if answer.status_code == httpx.codes.NOT_FOUND else _read(answer)

    def find(self, kind: str, namespace: str | None, selector: str = "") -> list[Object]:
        """Each with its kind, which the server's lists leave out."""
        resource = self._resource(kind)
        answer = self._http.get(resource.path(namespace), params={"labelSelector": selector})
        about = {"apiVersion": resource.kind.api_version, "kind": resource.kind.kind}
        return [about | item for item in _read(answer)["items"]]

    def apply(self, namespace: str | None, manifest: Object) -> Object:
        """Server-side: what an earlier call asked for and this one does not is taken away."""
        path = self._path_of(manifest, namespace, manifest["metadata"]["name"])
        options = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return self._patch(path, "apply-patch+yaml", manifest, options)

    def create(self, namespace: str | None, manifest: Object) -> Object:
        return _read(self._http.post(self._path_of(manifest, namespace), json=manifest))

    def patch(
        self, kind: str, namespace: str | None, name: str, patch: Any, *, subresource: str | None = None
    ) -> Object:
        """A JSON merge patch, or a JSON patch where it is a list."""
        path = self._resource(kind).path(namespace, name, subresource)
        return self._patch(path, "json-patch+json" if isinstance(patch, list) else "merge-patch+json", patch)

    def delete(self, kind: str, namespace: str | None, name: str, *, wait: bool = True) -> None:
        """What is not there is deleted already. Waits until this very object is gone."""
        path = self._resource(kind).path(namespace, name)
        answer = self._http.delete(path, params={"propagationPolicy": "Background"})
        if answer.status_code == httpx.codes.NOT_FOUND:
            return
        told = _read(answer)
        # The answer is the object while something holds it, else a Status about it.
        uid = told["metadata"].get("uid") or told.get("details", {}).get("uid")
        deadline_s = time.monotonic() + GONE_WITHIN_S
        while wait and (self.get(kind, namespace, name) or {"metadata": {}})["metadata"].get("uid") == uid:
            if time.monotonic() > deadline_s:
                raise ClusterError(f"{kind} {name} is still there")
            time.sleep(0.05)

    def _patch(self, path: str, type_: str, body: Any, options: dict[str, str] | None = None) -> Object:
        headers = {"Content-Type": f"application/{type_}"}
        return _read(self._http.patch(path, json=body, headers=headers, params=options))

    def _path_of(self, manifest: Object, namespace: str | None, name: str | None = None) -> str:
        group, _, _version = manifest["apiVersion"].rpartition("/")
        return self._resource(".".join(filter(None, (manifest["kind"].lower(), group)))).path(namespace, name)

    def _resource(self, kind: str) -> Resource:
        deadline_s = time.monotonic() + KNOWN_WITHIN_S
        while kind not in self._known:
            if time.monotonic() > deadline_s:
                raise ClusterError(f"the server has no kind {kind}")
            self._discover()
        return self._known[kind]

    def _discover(self) -> None:
        for root in ("/api", "/apis"):
            groups = _read(self._http.get(root, headers={"Accept": DISCOVERY}))["items"]
            for group in groups:
                name = group["metadata"].get("name", "")
                # The first version is the one that the server prefers.
                version = group["versions"][0]
                for resource in version.get("resources", []):
                    self._learn(resource, name, version["version"])
        time.sleep(0.05)

    def _learn(self, described: Object, group: str, version: str) -> None:
        kind = described["responseKind"]["kind"]
        api_version = f"{group}/{version}" if group else version
        is_namespaced = described["scope"] == "Namespaced"
        resource = Resource(Kind(api_version, kind, described["resource"]), is_namespaced)
        words = (described["resource"], described["singularResource"], kind.lower())
        for word in (*words, *described.get("shortNames", ())):
            self._known.setdefault(word, resource)
        for word in words if group else ():
            self._known[f"{word}.{group}"] = resource


def _read(answer: httpx.Response) -> Object:
    found: Object = answer.json()
    if answer.is_error:
        raise ClusterError(f"{answer.request.method} {answer.request.url.path}: {found.get('message')}")
    return found
