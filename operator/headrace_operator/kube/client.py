"""The façade over the official client: plain dicts in and out, a deadline on every call, no hidden retries
but the one with a renewed token.

Writes are server-side applies (create and update are one verb, so that a repeat cannot duplicate), or small
merge patches where the object is not ours to render. Every failure is a `KubeError` or a
`KubeUnreachableError`.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from kubernetes.aio.client import ApiClient, Configuration

from headrace_operator.kube.auth import CredentialsError
from headrace_operator.kube.errors import KubeError, KubeUnreachableError, error_from
from headrace_operator.kube.kinds import Kind, kind_of

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
LIST_CHUNK = 500
NOT_THERE = "1"
"""A resource version that no object ever has: the store's first, at which it was empty."""

RequestObserver = Callable[[str, int, float], None]
"""Told of each call: verb, status (0 when there was no answer), seconds."""


def _ignore(_verb: str, _status: int, _seconds: float) -> None:
    return


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    payload: bytes


class KubeClient:
    """One connection pool to one API server. Close it when done.

    `renew` reads the credentials anew; it is asked when the server no longer takes the token.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        timeout_s: float = 10.0,
        observe: RequestObserver = _ignore,
        renew: Callable[[], Awaitable[Configuration]] | None = None,
    ) -> None:
        configuration.retries = None
        self._configuration = configuration
        self._renew = renew
        self._api = ApiClient(configuration)
        self._api.user_agent = "headrace-operator"
        self._timeout_s = timeout_s
        self._observe = observe

    async def close(self) -> None:
        await self._api.close()

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        """The object as the server has it now; None when there is none."""
        try:
            return await self._call("GET", kind.path(namespace, name))
        except KubeError as error:
            if error.is_not_found:
                return None
            raise

    async def list(self, kind: Kind, namespace: str | None = None) -> tuple[list[dict[str, Any]], str]:
        """Every object of the kind within its label selector, and the resource version of that state."""
        items: list[dict[str, Any]] = []
        query = [("limit", str(LIST_CHUNK))]
        if kind.label_selector:
            query.append(("labelSelector", kind.label_selector))
        path, following = kind.path(namespace), ""
        while True:
            chunk = [*query, ("continue", following)] if following else query
            page = await self._call("GET", path, query=chunk, verb="LIST")
            # Items of a list carry neither field; what we store always does.
            items += [{**item, "apiVersion": kind.api_version, "kind": kind.kind} for item in page["items"]]
            following = page["metadata"].get("continue", "")
            if not following:
                return items, page["metadata"]["resourceVersion"]

    async def serves(self, kind: Kind) -> bool:
        """Whether the server knows the kind: told to everybody, without a right on any object."""
        try:
            found = await self._call("GET", f"/apis/{kind.api_version}", verb="DISCOVER")
        except KubeError as error:
            if error.is_not_found:
                return False
            raise
        return any(resource.get("name") == kind.plural for resource in found.get("resources") or ())

    async def try_watch(self, kind: Kind, namespace: str | None, resource_version: str) -> None:
        """Begin a watch and leave it at that: raises what a watch would end in."""
        query = [("watch", "true"), ("resourceVersion", resource_version), ("timeoutSeconds", "1")]
        if kind.label_selector:
            query.append(("labelSelector", kind.label_selector))
        answer = await self._send("GET", kind.path(namespace), query=query, verb="WATCH", wants_body=False)
        if answer.status != 200:
            raise error_from(answer.status, answer.headers, answer.payload)

    async def apply(
        self, manifest: Mapping[str, Any], *, field_manager: str, force: bool, subresource: str | None = None
    ) -> dict[str, Any]:
        """Server-side apply. Without `force`, a field that another manager holds at another value is a 409.

        A manifest with `metadata.uid` is applied to that very object or not at all (409); one with
        `metadata.resourceVersion` `NOT_THERE` makes an object, or is a 409 where there is one of that name.
        """
        metadata = manifest["metadata"]
        path = kind_of(manifest).path(metadata["namespace"], metadata["name"], subresource)
        query = [("fieldManager", field_manager), ("force", "true" if force else "false")]
        # An unknown field is refused without it too; it would have the server parse each body twice.
        query.append(("fieldValidation", "Ignore"))
        # As bytes: the official client would copy the document first, and then take the slow encoder.
        body = orjson.dumps(manifest)
        content_type = f"{APPLY_PATCH}; charset=utf-8"
        return await self._call(
            "PATCH", path, query=query, body=body, content_type=content_type, verb="APPLY"
        )

    async def merge(self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """A JSON merge patch; with `metadata.resourceVersion` in it, only onto that version."""
        return await self._call("PATCH", kind.path(namespace, name), body=patch, content_type=MERGE_PATCH)

    async def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        return await self._call(
            "POST", kind_of(manifest).path(manifest["metadata"]["namespace"]), body=manifest
        )

    async def replace(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """PUT: with `metadata.resourceVersion`, a 409 if anybody wrote since."""
        metadata = manifest["metadata"]
        return await self._call(
            "PUT", kind_of(manifest).path(metadata["namespace"], metadata["name"]), body=manifest
        )

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | bytes | None = None,
        content_type: str = "application/json",
        verb: str | None = None,
    ) -> dict[str, Any]:
        async def send() -> _Answer:
            return await self._send(
                method, path, query=query, body=body, content_type=content_type, verb=verb or method
            )

        token = dict(self._configuration.api_key)
        answer = await send()
        if answer.status == 401 and await self._has_another(token):
            answer = await send()
        if not 200 <= answer.status < 300:
            raise error_from(answer.status, answer.headers, answer.payload)
        try:
            document: dict[str, Any] = orjson.loads(answer.payload)
        except orjson.JSONDecodeError as error:
            raise KubeUnreachableError(f"{method} {path}: the answer is not JSON") from error
        return document

    async def _send(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        query: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | bytes | None = None,
        content_type: str = "application/json",
        wants_body: bool = True,
    ) -> _Answer:
        """What the server answered. An answer of 200 is not read where its body is not wanted."""
        started_s, status = time.monotonic(), 0
        try:
            request = await self._api.param_serialize(
                method,
                path,
                query_params=list(query),
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            timeout = aiohttp.ClientTimeout(total=self._timeout_s)
            answer = await self._api.call_api(*request, _request_timeout=timeout)
            status = answer.status
            if status == 200 and not wants_body:
                answer.response.close()
                return _Answer(status, answer.headers, b"")
            return _Answer(status, answer.headers, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubeUnreachableError(f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error
        finally:
            self._observe(verb, status, time.monotonic() - started_s)

    async def _has_another(self, refused: Mapping[str, str]) -> bool:
        """Whether there is another token than the one refused. Client certificates are not renewed."""
        if self._renew is None:
            return False
        try:
            fresh = await self._renew()
        except CredentialsError:
            return False
        self._configuration.api_key = fresh.api_key
        self._configuration.refresh_api_key_hook = fresh.refresh_api_key_hook
        return bool(fresh.api_key) and refused != fresh.api_key
