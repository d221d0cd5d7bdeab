"""The NetworkPolicy of a service: admin from the operator alone, out to nobody that a model does not need."""

import ipaddress
from dataclasses import replace
from typing import Any

import pytest
from operator_builders import SETTINGS, service

from headrace_operator.api.spec import Limits
from headrace_operator.render.children import children
from headrace_operator.render.pod_template import pod_template
from headrace_operator.render.surroundings import Surroundings

AROUND = Surroundings(
    operator_namespace="operators",
    metrics_from=({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},),
    has_pod_monitors=True,
    pod_monitor_labels={"release": "prometheus"},
)
HUB = {"model": {"uri": "hf://org/name"}}


def rendered(spec, around=AROUND, **more) -> dict[str, Any]:
    made = children(
        spec,
        replicas=1,
        limits=Limits(8, 512),
        image=SETTINGS.engine_image,
        admin_keys="{}",
        around=around,
        **more,
    )
    return {manifest["kind"]: manifest for manifest in made}


def policy(*changes):
    return rendered(service(*changes))["NetworkPolicy"]["spec"]


def sources(port, *changes):
    """Who may open the port: None is everybody."""
    rules = [rule for rule in policy(*changes)["ingress"] if port in [item["port"] for item in rule["ports"]]]
    return [rule.get("from") for rule in rules]


def test_it_is_about_the_service_s_own_pods_in_both_directions():
    found = policy()
    assert found["podSelector"]["matchLabels"] == {"headrace.dev/inferenceservice": "chat"}
    assert found["policyTypes"] == ["Ingress", "Egress"]


def test_the_admin_port_is_open_to_the_operator_alone():
    [[operator]] = sources(8001)
    assert operator["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "operators"}
    assert operator["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "headrace-operator"}


def test_where_no_client_is_named_everybody_may_ask():
    assert None in sources(8000)


def test_named_clients_ask_and_operator_and_monitoring_read_metrics():
    clients = [{"podLabels": {"app": "web"}}, {"namespaceLabels": {"team": "a"}}, {"namespaceLabels": {}}]
    asking, reading = sources(8000, {"network": {"clients": clients}})
    assert asking == [
        {"podSelector": {"matchLabels": {"app": "web"}}},
        {"namespaceSelector": {"matchLabels": {"team": "a"}}},
        {"namespaceSelector": {}},
        *AROUND.metrics_from,
    ]
    assert reading == sources(8001)[0]


def test_readers_of_metrics_without_a_namespace_are_of_the_operators_as_in_its_own_policy():
    reader = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
    around = replace(AROUND, metrics_from=(reader, {"ipBlock": {"cidr": "192.0.2.0/24"}}))
    made = rendered(service({"network": {"clients": [{"podLabels": {"app": "web"}}]}}), around)
    _, *readers = made["NetworkPolicy"]["spec"]["ingress"][0]["from"]
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": "operators"}}
    assert readers == [{**reader, "namespaceSelector": namespace}, {"ipBlock": {"cidr": "192.0.2.0/24"}}]


@pytest.mark.parametrize("runtime", [{}, {"engine": {"runtime": "vllm", "image": "vllm:1"}}])
def test_pods_that_were_gone_back_to_may_download_their_model_whatever_the_spec_asks_for(runtime):
    kept = pod_template(service(HUB | runtime), image=SETTINGS.engine_image, admin_keys="{}")
    egress = rendered(service(), template=kept)["NetworkPolicy"]["spec"]["egress"]
    assert egress == policy(HUB)["egress"]


def test_a_model_on_a_claim_lets_out_nothing_but_names():
    [names] = policy()["egress"]
    assert {item["port"] for item in names["ports"]} == {53}


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "10.96.0.1",
        "192.168.1.1",
        "172.16.3.4",
        "100.64.0.1",
        "198.18.0.2",
        "fd00::1",
        "fe80::1",
    ],
)
def test_a_download_reaches_no_address_of_the_cluster_nor_a_metadata_service(address):
    _, hub = policy(HUB)["egress"]
    assert hub["ports"] == [{"port": 443, "protocol": "TCP"}]
    target = ipaddress.ip_address(address)
    for peer in hub["to"]:
        block = peer["ipBlock"]
        if target in ipaddress.ip_network(block["cidr"]):
            assert any(target in ipaddress.ip_network(private) for private in block["except"])


def test_a_download_reaches_a_public_hub():
    _, hub = policy(HUB)["egress"]
    target = ipaddress.ip_address("18.164.174.23")
    [block] = [
        peer["ipBlock"] for peer in hub["to"] if target in ipaddress.ip_network(peer["ipBlock"]["cidr"])
    ]
    assert not any(target in ipaddress.ip_network(private) for private in block["except"])


def test_pods_run_as_an_account_of_their_own_that_has_no_token():
    made = rendered(service())
    account = made["ServiceAccount"]
    pod = made["Deployment"]["spec"]["template"]["spec"]
    assert account["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == account["metadata"]["name"] == "chat-engine"
    assert pod["automountServiceAccountToken"] is False


def test_a_pod_monitor_finds_the_pods_in_their_namespace_and_names_no_file():
    monitor = rendered(service())["PodMonitor"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["metadata"]["namespace"] == "default"
    assert "namespaceSelector" not in monitor["spec"]
    assert monitor["spec"]["selector"]["matchLabels"] == {"headrace.dev/inferenceservice": "chat"}
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "http", "path": "/metrics"}, "no file, no credentials, no proxy"


def test_without_the_kind_or_the_wish_there_is_no_pod_monitor():
    assert "PodMonitor" not in rendered(service(), around=Surroundings())
