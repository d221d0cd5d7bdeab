"""Which edits replace pods, and what the API server adds that is no drift."""

import json
from copy import deepcopy

import pytest
from operator_builders import SETTINGS, service

from headrace_operator.api.spec import Limits
from headrace_operator.render.children import children
from headrace_operator.render.owned import difference, is_drifted, needs_apply

LIVE_EDITS = {
    "targets": {"slo": {"ttft": "2s", "itl": "90ms", "attainment": "0.9", "window": "5m"}},
    "scaling": {"scaling": {"mode": "Fixed", "minReplicas": 3, "maxReplicas": 3}},
    "tuning": {"tuning": {"mode": "Off", "interval": "1m"}},
    "pause": {"paused": True},
    "replicas": {"replicas": 3},
    "tenants": {"tenants": {"keys": {64 * "a": "acme"}, "items": [{"name": "acme", "weight": 3}]}},
    "clients": {"network": {"clients": [{"podLabels": {"app": "web"}}]}},
    "rollout": {"rollout": {"strategy": "Recreate", "rollback": False}},
    "headroom": {"scaling": {"headroom": "0.5"}},
    "pace": {"scaling": {"scaleUp": {"maxStepPods": 1}, "scaleDown": {"maxStepPods": 2, "period": "9m"}}},
}
ROLLING_EDITS = {
    "model": {"model": {"uri": "pvc://models/other"}},
    "capacity": {"engine": {"limits": {"maxNumSeqs": 32}}},
    "image": {"engine": {"image": "registry.test/engine:2"}},
    "threads": {"engine": {"threads": 2}},
    "deadline": {"slo": {"queueDeadline": "2s"}},
    "flag": {"engine": {"args": ["--seed=1"]}},
    "variable": {"engine": {"env": [{"name": "HF_ENDPOINT", "value": "https://hub.test"}]}},
    "label": {"engine": {"template": {"labels": {"team": "a"}}}},
    "spread": {"engine": {"template": {"topologySpreadConstraints": [{"topologyKey": "zone"}]}}},
    "memory": {"engine": {"resources": {"limits": {"memory": "2Gi"}}}},
}


def rendered(spec, *, limits=None, replicas=1, admin_keys=SETTINGS.admin_keys):
    made = children(
        spec,
        replicas=replicas,
        limits=limits or Limits(16, 512),
        image=spec.engine.image or SETTINGS.engine_image,
        admin_keys=admin_keys,
    )
    return {manifest["kind"]: manifest for manifest in made}


def template(spec, **changes):
    return rendered(spec, **changes)["Deployment"]["spec"]["template"]


@pytest.mark.parametrize("edit", LIVE_EDITS)
def test_an_edit_of_what_is_live_keeps_the_pods(edit):
    assert template(service(LIVE_EDITS[edit])) == template(service())


@pytest.mark.parametrize("edit", ROLLING_EDITS)
def test_an_edit_of_what_an_engine_starts_with_replaces_them(edit):
    assert template(service(ROLLING_EDITS[edit])) != template(service())


def test_active_limits_move_in_the_config_map_alone():
    before, after = rendered(service()), rendered(service(), limits=Limits(8, 256))
    assert after["Deployment"] == before["Deployment"]
    assert json.loads(after["ConfigMap"]["data"]["limits.json"]) == {
        "max_num_seqs": 8,
        "max_num_batched_tokens": 256,
    }


def test_other_keys_replace_the_pods_because_engines_read_them_once():
    assert template(service(), admin_keys='{"keys": [1]}') != template(service())


def test_the_command_line_says_what_the_spec_says():
    spec = service(
        {"engine": {"threads": 2, "limits": {"maxModelLen": 1024}}, "slo": {"queueDeadline": "2s"}}
    )
    [container] = template(spec)["spec"]["containers"]
    line = " ".join(container["args"])
    assert line.startswith("serve /models/tiny ")
    for part in (
        "--served-model-name chat --max-num-seqs 16",
        "--max-model-len 1024",
        "--threads 2",
        "--queue-deadline-ms 2000",
        "--shutdown-timeout 60",
    ):
        assert part in line


def test_targets_reach_the_engines_through_the_config_map():
    made = rendered(service())
    assert made["ConfigMap"]["data"]["slo-ttft-ms"] == "1000"
    variables = {item["name"]: item for item in template(service())["spec"]["containers"][0]["env"]}
    source = variables["HEADRACE_SLO_TTFT_MS"]["valueFrom"]["configMapKeyRef"]
    assert source == {"name": "chat-engine", "key": "slo-ttft-ms", "optional": True}


def test_a_pod_has_as_long_to_go_as_its_drain_takes():
    spec = template(service({"engine": {"drainTimeout": "5m"}}))["spec"]
    assert spec["terminationGracePeriodSeconds"] >= 300 + 3


def test_a_rollout_is_not_late_because_a_pod_drains_first():
    spec = service({"engine": {"drainTimeout": "10m"}, "rollout": {"progressDeadline": "20m"}})
    assert rendered(spec)["Deployment"]["spec"]["progressDeadlineSeconds"] == 30 * 60


def test_what_the_api_server_fills_in_is_no_drift():
    spec = service({"engine": {"resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}}})
    made = rendered(spec)["Deployment"]
    live = deepcopy(made)
    live["metadata"] |= {"resourceVersion": "7", "managedFields": []}
    live["spec"]["template"]["spec"] |= {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always"}
    container = live["spec"]["template"]["spec"]["containers"][0]
    container |= {"imagePullPolicy": "IfNotPresent"}
    container["resources"]["requests"] = {"cpu": "1", "memory": "1Gi"}
    assert not needs_apply(live, made)


@pytest.mark.parametrize(
    ("path", "edit"),
    [
        ("spec.replicas", lambda live: live["spec"].update(replicas=9)),
        (
            "spec.template.spec.containers[0].image",
            lambda live: live["spec"]["template"]["spec"]["containers"][0].update(image="evil:1"),
        ),
        (
            "spec.template.spec.containers[0].args",
            lambda live: live["spec"]["template"]["spec"]["containers"][0]["args"].append("--dtype=float64"),
        ),
        (
            "spec.template.spec.containers[0].env[0]",
            lambda live: live["spec"]["template"]["spec"]["containers"][0]["env"].pop(0),
        ),
        (
            "spec.template.spec.volumes[0].configMap.name",
            lambda live: live["spec"]["template"]["spec"]["volumes"][0]["configMap"].update(name="theirs"),
        ),
        ("metadata.labels.app.kubernetes.io/name", lambda live: live["metadata"]["labels"].clear()),
    ],
)
def test_what_somebody_edits_is_drift_and_the_path_is_named(path, edit):
    made = rendered(service())["Deployment"]
    live = deepcopy(made)
    edit(live)
    assert is_drifted(live, made)
    assert difference(live, made) == path


ADDITIONS = {
    "a container": lambda live: live["spec"]["template"]["spec"]["containers"].insert(0, {"name": "side"}),
    "a variable": lambda live: live["spec"]["template"]["spec"]["containers"][0]["env"].insert(
        0, {"name": "FOO", "value": "bar"}
    ),
    "a port": lambda live: live["spec"]["template"]["spec"]["containers"][0]["ports"].insert(
        0, {"containerPort": 9, "protocol": "TCP"}
    ),
    "a volume": lambda live: live["spec"]["template"]["spec"]["volumes"].insert(
        0, {"name": "x", "emptyDir": {}}
    ),
    "a mount": lambda live: live["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].insert(
        0, {"name": "x", "mountPath": "/x"}
    ),
    "an owner": lambda live: live["metadata"]["ownerReferences"].insert(0, {"uid": "other"}),
    "a label": lambda live: live["metadata"]["labels"].update(team="a"),
}


@pytest.mark.parametrize("addition", ADDITIONS)
def test_what_somebody_adds_is_no_drift_because_applying_would_leave_it_there(addition):
    made = rendered(service())["Deployment"]
    live = deepcopy(made)
    ADDITIONS[addition](live)
    assert live != made
    assert not needs_apply(live, made)


@pytest.mark.parametrize("port", [{"port": 9, "protocol": "TCP"}, {"port": 8000, "protocol": "UDP"}])
def test_a_port_that_somebody_adds_to_the_service_is_no_drift(port):
    made = rendered(service())["Service"]
    live = deepcopy(made)
    live["spec"]["ports"].insert(0, {"name": "theirs", **port})
    assert not needs_apply(live, made)
    live["spec"]["ports"].pop()
    assert difference(live, made) == "spec.ports[0]"


def test_a_new_spec_is_no_drift():
    live, made = (
        rendered(service())["Deployment"],
        rendered(service({"engine": {"threads": 3}}))["Deployment"],
    )
    assert needs_apply(live, made)
    assert not is_drifted(live, made)


def as_stored(value):
    """As the API server gives it back: fields that are empty texts or lists are gone."""
    if isinstance(value, dict):
        kept = {name: as_stored(item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item not in ("", [])}
    return [as_stored(item) for item in value] if isinstance(value, list) else value


def test_what_the_api_server_drops_as_empty_is_no_drift():
    """Or it would be applied, and told as edited by somebody, for ever."""
    toleration = {"key": "dedicated", "operator": "Equal", "value": "", "effect": "NoSchedule"}
    spec = service(
        {"engine": {"env": [{"name": "EMPTY", "value": ""}], "template": {"tolerations": [toleration]}}}
    )
    made = rendered(spec)["Deployment"]
    live = as_stored(deepcopy(made))
    assert live != made
    assert not needs_apply(live, made)


def test_an_emptied_variable_is_drift():
    made = rendered(service({"engine": {"env": [{"name": "SET", "value": "1"}]}}))["Deployment"]
    live = deepcopy(made)
    live["spec"]["template"]["spec"]["containers"][0]["env"][0].pop("value")
    assert is_drifted(live, made)


@pytest.mark.parametrize("name", ["imagePullSecrets", "volumes"])
def test_lists_that_the_api_server_merges_name_nothing_twice(name):
    made = rendered(service({"engine": {"imagePullSecrets": ["one", "other", "one"]}}))["Deployment"]
    names = [item["name"] for item in made["spec"]["template"]["spec"][name]]
    assert len(names) == len(set(names))
