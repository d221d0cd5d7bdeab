"""Who reaches an engine's pod, and whom it reaches.

In: the serving port from the declared clients; the admin port, and the serving port for its metrics, from the
operator. Out: names, and a hub where the model is downloaded. Policies add up: whoever needs more (a trace
collector, a mirror inside the cluster) adds one of their own.
"""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import ADMIN_PORT, HTTP_PORT, engine_name, selector_labels
from headrace_operator.api.spec import Client, ServiceSpec
from headrace_operator.render.metadata import child
from headrace_operator.render.surroundings import Surroundings

OPERATOR_LABELS = {"app.kubernetes.io/name": "headrace-operator"}
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_NOT_PUBLIC = {
    "0.0.0.0/0": (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15"),
        # Link-local: the metadata services of clouds.
        "169.254.0.0/16",
    ),
    "::/0": ("fc00::/7", "fe80::/10"),
}
"""Never reached by a download: nodes, Services, the API server."""


def network_policy(spec: ServiceSpec, *, around: Surroundings, downloads: bool) -> dict[str, Any]:
    """The NetworkPolicy of a service's pods. `downloads`: some of them may download their model."""
    content = {
        "spec": {
            "podSelector": {"matchLabels": selector_labels(spec.name)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": _ingress(spec, around),
            "egress": _egress(downloads=downloads),
        }
    }
    return child(
        spec,
        api_version="networking.k8s.io/v1",
        kind="NetworkPolicy",
        name=engine_name(spec.name),
        content=content,
    )


def _ingress(spec: ServiceSpec, around: Surroundings) -> list[dict[str, Any]]:
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: around.operator_namespace}},
        "podSelector": {"matchLabels": OPERATOR_LABELS},
    }
    calls = {"ports": _tcp(HTTP_PORT, ADMIN_PORT), "from": [operator]}
    if not spec.clients:
        return [{"ports": _tcp(HTTP_PORT)}, calls]
    readers = (_reader(peer, around) for peer in around.metrics_from)
    peers = [*(_peer(client) for client in spec.clients), *readers]
    return [{"ports": _tcp(HTTP_PORT), "from": peers}, calls]


def _reader(peer: Mapping[str, Any], around: Surroundings) -> Mapping[str, Any]:
    """Who reads metrics, as in the operator's own policy: pods without a namespace are of the operator's."""
    if "podSelector" not in peer or "namespaceSelector" in peer:
        return dict(peer)
    return {**peer, "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: around.operator_namespace}}}


def _egress(*, downloads: bool) -> list[dict[str, Any]]:
    names = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
    if not downloads:
        return [names]
    public = [{"ipBlock": {"cidr": cidr, "except": list(private)}} for cidr, private in _NOT_PUBLIC.items()]
    return [names, {"ports": _tcp(443), "to": public}]


def _tcp(*ports: int) -> list[dict[str, Any]]:
    return [{"port": port, "protocol": "TCP"} for port in ports]


def _peer(client: Client) -> Mapping[str, Any]:
    selectors = {"namespaceSelector": client.namespace_labels, "podSelector": client.pod_labels}
    return {
        name: {"matchLabels": dict(labels)} if labels else {}
        for name, labels in selectors.items()
        if labels is not None
    }
