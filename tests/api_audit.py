"""Who wrote what and when, by the API server's own record. A writer is known by its token."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from headrace_local.cluster import Cluster

_TOKEN_OF = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True, order=True)
class Write:
    """One request that would change something, answered `at` (ISO 8601, UTC) with `code`."""

    at: str
    writer: str
    verb: str
    resource: str
    namespace: str
    code: int

    @property
    def takes_the_lease(self) -> bool:
        """Takes, keeps or gives it up: after it, nobody else may write."""
        return self.resource == "leases" and self.code < 300


def writes(cluster: Cluster, namespace: str) -> list[Write]:
    """In the order in which they were answered; reviews of rights change nothing and are no writes."""
    whole, _, _ = cluster.audit_log.read_text().rpartition("\n")
    events = [json.loads(line) for line in whole.splitlines()]
    return sorted(_write(event) for event in events if event["objectRef"].get("namespace") == namespace)


def _write(event: dict) -> Write:
    target = event["objectRef"]
    resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
    [writer] = event["user"]["extra"][_TOKEN_OF]
    code = event["responseStatus"]["code"]
    return Write(event["stageTimestamp"], writer, event["verb"], resource, target["namespace"], code)


def writer_of(kubeconfig: Path) -> str:
    """The writer that uses the token of that file."""
    [user] = yaml.safe_load(kubeconfig.read_text())["users"]
    claims = user["user"]["token"].split(".")[1]
    return f"JTI={json.loads(base64.urlsafe_b64decode(claims + '=='))['jti']}"


def reigns(record: Sequence[Write]) -> list[str]:
    """Who held the lease, one after the other. AssertionError for a write by anybody else meanwhile."""
    held: list[str] = []
    for write in record:
        if write.takes_the_lease:
            if held[-1:] != [write.writer]:
                held.append(write.writer)
        elif write.resource != "leases":
            assert held[-1:] == [write.writer], f"{write} beside {held}"
    return held
