"""`engine.template` as it reaches the pod: in Kubernetes' own shape, of the service's own pods by default."""

from operator_builders import SETTINGS, service

from headrace_operator.render.pod_template import pod_template

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
OWN = {"matchLabels": {"headrace.dev/inferenceservice": "chat"}}


def pod(template):
    spec = service({"engine": {"template": template}})
    made = pod_template(spec, image=SETTINGS.engine_image, admin_keys=SETTINGS.admin_keys)
    return made["spec"]


def test_nothing_declared_is_nothing_said():
    assert {"affinity", "topologySpreadConstraints"} & set(pod({})) == set()
    assert pod({"affinity": {}, "topologySpreadConstraints": []}) == pod({})


def test_the_affinity_of_kubernetes_is_taken_as_it_is():
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}
    large = {"key": "memory-gib", "operator": "Gt", "values": ["64"]}
    web = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "Exists"}],
        },
    }
    declared = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone, large]}]},
            PREFERRED: [{"weight": 7, "preference": {"matchExpressions": [zone]}}],
        },
        "podAffinity": {PREFERRED: [{"weight": 3, "podAffinityTerm": web}]},
        "podAntiAffinity": {REQUIRED: [web]},
    }
    assert pod({"affinity": declared})["affinity"] == declared


def test_replicas_keep_apart_and_spread_by_a_word():
    apart = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname"}]}}
    spread = [{"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}]
    made = pod({"affinity": apart, "topologySpreadConstraints": spread})
    [term] = made["affinity"]["podAntiAffinity"][REQUIRED]
    assert term == {"topologyKey": "kubernetes.io/hostname", "labelSelector": OWN}
    assert made["topologySpreadConstraints"] == [{**spread[0], "maxSkew": 1, "labelSelector": OWN}]


def test_pods_of_other_namespaces_are_not_to_be_named():
    foreign = {"topologyKey": "zone", "namespaces": ["other"], "namespaceSelector": {}}
    made = pod({"affinity": {"podAffinity": {REQUIRED: [foreign]}}})
    assert made["affinity"]["podAffinity"][REQUIRED] == [{"topologyKey": "zone", "labelSelector": OWN}]
