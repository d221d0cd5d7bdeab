"""What people ask for by kubectl, on a real API server whose pods a test plays the kubelet for: it converges,
with the conditions on the way that `kubectl wait` waits for.
"""

import pytest
from eventually import eventually
from least_service import service
from own_namespace import Namespace

pytestmark = pytest.mark.cluster

LIVE_EDITS = {
    "targets": {"slo": {"ttft": "2s", "itl": "90ms", "attainment": "0.9"}},
    "bounds of scaling": {"scaling": {"mode": "Auto", "minReplicas": 1, "maxReplicas": 4}},
    "stabilization": {"scaling": {"scaleDown": {"stabilization": "10m"}}},
    "pace": {"scaling": {"scaleUp": {"maxStepPods": 2, "maxStepPercent": 50}, "scaleDown": {"period": "5m"}}},
    "tuning": {"tuning": {"mode": "Auto", "interval": "30s"}},
    "limits below capacity": {"tuning": {"bounds": {"maxNumSeqs": {"min": 4, "max": 8}}}},
    "tenants": {"tenants": {"keys": {64 * "a": "acme"}, "items": [{"name": "acme", "weight": 3}]}},
    "rollout": {"rollout": {"progressDeadline": "30m"}},
    "pause": {"paused": True},
}


def pods_of(namespace):
    pods = namespace.find("pods", "headrace.dev/inferenceservice=chat")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def run_all(namespace):
    """Every pod that there is by now gets ready."""
    for pod in pods_of(namespace):
        if not pod["status"].get("podIP"):
            namespace.run_pod(pod, ip="203.0.113.7")


def wait_for(namespace, condition):
    namespace.kubectl("wait", f"--for=condition={condition}", "infs/chat", "--timeout=60s")


def is_observed(namespace):
    found = namespace.get("infs", "chat")
    return found["status"].get("observedGeneration") == found["metadata"]["generation"]


@pytest.fixture
def ready(namespace, operator):
    """A service whose one pod is ready."""
    namespace.apply(service())
    eventually(lambda: pods_of(namespace))
    run_all(namespace)
    wait_for(namespace, "Ready")
    eventually(lambda: namespace.condition("chat", "Progressing")["reason"] == "RolloutComplete")
    return namespace


def test_an_edit_of_what_is_live_leaves_every_pod_alone(ready):
    [pod] = pods_of(ready)
    before = ready.get("deployment", "chat-engine")["spec"]["template"]
    for edit in LIVE_EDITS.values():
        ready.patch("infs", "chat", {"spec": edit})
        eventually(lambda: is_observed(ready))
        assert ready.get("deployment", "chat-engine")["spec"]["template"] == before, edit
    assert [found["metadata"]["uid"] for found in pods_of(ready)] == [pod["metadata"]["uid"]]
    eventually(lambda: ready.get("infs", "chat")["status"]["activeLimits"]["maxNumSeqs"] == 8)
    data = ready.get("configmap", "chat-engine")["data"]
    assert '"max_num_seqs": 8' in data["limits.json"], "pods that start from now on have them too"
    assert "acme" in data["api-keys.json"]


def test_an_edit_of_what_an_engine_starts_with_replaces_pods_and_says_so(ready):
    [old] = pods_of(ready)
    ready.patch("infs", "chat", {"spec": {"engine": {"threads": 2}}})
    wait_for(ready, "Progressing")
    assert ready.condition("chat", "Progressing")["reason"] == "RolloutInProgress"
    eventually(lambda: len(pods_of(ready)) == 2)
    run_all(ready)
    wait_for(ready, "Progressing=False")
    assert ready.condition("chat", "Progressing")["reason"] == "RolloutComplete"
    eventually(lambda: [pod["metadata"]["uid"] for pod in pods_of(ready)] != [old["metadata"]["uid"]])
    wait_for(ready, "Ready")


def test_kubectl_scale_pins_the_replicas_and_removing_the_pin_frees_them(ready):
    scaling = {"mode": "Auto", "minReplicas": 1, "maxReplicas": 4}
    ready.patch("infs", "chat", {"spec": {"scaling": scaling}})
    ready.kubectl("scale", "infs/chat", "--replicas=3")
    eventually(lambda: len(pods_of(ready)) == 3)
    wait_for(ready, "ScalingActive=False")
    assert ready.condition("chat", "ScalingActive")["reason"] == "PinnedByUser"
    run_all(ready)
    ready.kubectl("wait", "--for=jsonpath={.status.readyReplicas}=3", "infs/chat", "--timeout=60s")
    scale = ready.kubectl("get", "infs/chat", "-o", "jsonpath={.status.replicas}/{.status.selector}")
    assert scale == "3/headrace.dev/inferenceservice=chat"
    ready.patch("infs", "chat", {"spec": {"replicas": None}})
    eventually(lambda: ready.condition("chat", "ScalingActive")["reason"] != "PinnedByUser")
    assert ready.get("infs", "chat")["status"]["desiredReplicas"] == 3, "nothing is known yet: it holds"


def test_the_mode_of_scaling_may_change_at_any_time_and_no_pod_is_touched(ready):
    """Before the change ahead of it is through as well: what comes out is what was asked for last."""
    before = [pod["metadata"]["uid"] for pod in pods_of(ready)]

    def ask(mode, replicas=1):
        scaling = {"mode": mode, "minReplicas": replicas, "maxReplicas": 4 if mode != "Fixed" else replicas}
        ready.patch("infs", "chat", {"spec": {"scaling": scaling}})

    def outcome():
        eventually(lambda: is_observed(ready))
        return ready.condition("chat", "ScalingActive")["reason"]

    ask("Fixed")
    fixed = outcome()
    for mode in ("Auto", "External", "Recommend", "Fixed", "External", "Auto"):
        ask(mode)
    assert outcome() != fixed
    for mode in ("Recommend", "Auto", "External", "Fixed"):
        ask(mode)
    assert outcome() == fixed
    assert [pod["metadata"]["uid"] for pod in pods_of(ready)] == before
    ask("Fixed", replicas=2)
    eventually(lambda: len(pods_of(ready)) == 2)


def autoscaler(api_version, kind, name):
    """Which sees no metrics here, and has a minimum to see to all the same."""
    target = {"apiVersion": api_version, "kind": kind, "name": name}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat"},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3},
    }


def test_a_horizontal_pod_autoscaler_scales_it_by_the_scale_subresource(ready):
    ready.patch("infs", "chat", {"spec": {"scaling": {"mode": "External"}, "replicas": 1}})
    ready.apply(autoscaler("headrace.dev/v1alpha1", "InferenceService", "chat"))
    eventually(lambda: len(pods_of(ready)) == 2)
    assert ready.get("infs", "chat")["spec"]["replicas"] == 2


def test_an_autoscaler_of_the_deployment_is_told_and_not_fought_until_it_is_gone(ready):
    ready.apply(autoscaler("apps/v1", "Deployment", "chat-engine"))
    wait_for(ready, "Conflict")
    assert ready.condition("chat", "Conflict")["reason"] == "AutoscalerOnDeployment"
    eventually(lambda: len(pods_of(ready)) == 2)
    eventually(lambda: ready.get("infs", "chat")["status"]["desiredReplicas"] == 2)
    assert ready.get("deployment", "chat-engine")["spec"]["replicas"] == 2
    ready.delete("horizontalpodautoscaler", "chat")
    wait_for(ready, "Conflict=False")


def test_a_hand_that_scales_the_deployment_is_set_back_once_and_named(ready):
    def replicas():
        return ready.get("deployment", "chat-engine")["spec"]["replicas"]

    ready.kubectl("scale", "deployment/chat-engine", "--replicas=3")
    wait_for(ready, "Conflict")
    told = ready.condition("chat", "Conflict")
    assert told["reason"] == "ScaledByAnother"
    assert "kubectl scales Deployment chat-engine" in told["message"]
    eventually(lambda: replicas() == 1)
    ready.kubectl("scale", "deployment/chat-engine", "--replicas=2")
    eventually(lambda: ready.condition("chat", "Conflict")["reason"] == "ScaledAgain")
    eventually(lambda: ready.get("infs", "chat")["status"]["desiredReplicas"] == 2)
    assert replicas() == 2


def test_an_approval_of_what_is_not_recommended_is_refused_with_the_reason(ready):
    ready.kubectl("annotate", "infs", "chat", "headrace.dev/approve=1f3c0000")
    eventually(lambda: "approval" in ready.get("infs", "chat")["status"])
    approval = ready.get("infs", "chat")["status"]["approval"]
    assert (approval["value"], approval["outcome"]) == ("1f3c0000", "Refused")
    eventually(lambda: "ApprovalRefused" in [event["reason"] for event in ready.events("chat")])


def test_a_pause_freezes_what_is_decided_and_goes_on_serving(ready):
    scaling = {"mode": "Auto", "minReplicas": 1, "maxReplicas": 4}
    ready.patch("infs", "chat", {"spec": {"scaling": scaling, "paused": True}})
    wait_for(ready, "ScalingActive=False")
    ready.kubectl("wait", "--for=jsonpath={.status.decision.reason}=Paused", "infs/chat", "--timeout=60s")
    assert ready.condition("chat", "ScalingActive")["reason"] == "Paused"
    assert ready.condition("chat", "Ready")["status"] == "True"
    ready.patch("infs", "chat", {"spec": {"paused": False}})
    eventually(lambda: ready.condition("chat", "ScalingActive")["reason"] != "Paused")
    ready.kubectl("annotate", "infs", "chat", "headrace.dev/paused=true")
    eventually(lambda: ready.condition("chat", "ScalingActive")["reason"] == "Paused")


def test_where_pods_are_to_go_is_asked_of_the_scheduler_and_does_not_drift(ready):
    """What the API server makes of it is no edit of somebody's, which would be set back for ever."""
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
    zone = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    nodes = [{"weight": 1, "preference": {"matchExpressions": [zone]}}]
    placed = {
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": nodes},
            "podAntiAffinity": apart,
        },
        "topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    }
    ready.patch("infs", "chat", {"spec": {"engine": {"template": placed}}})

    def pod():
        return ready.get("deployment", "chat-engine")["spec"]["template"]["spec"]

    eventually(lambda: "affinity" in pod())
    [own] = pod()["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert own["labelSelector"] == {"matchLabels": {"headrace.dev/inferenceservice": "chat"}}
    version = ready.get("deployment", "chat-engine")["metadata"]["generation"]
    ready.patch("infs", "chat", {"spec": {"slo": {"ttft": "3s"}}})
    eventually(lambda: is_observed(ready))
    assert ready.get("deployment", "chat-engine")["metadata"]["generation"] == version
    assert "DriftCorrected" not in [event["reason"] for event in ready.events("chat")]


def test_a_namespace_that_is_deleted_goes_with_all_that_is_in_it(namespace, operator):
    doomed = Namespace.create(namespace.objects)
    doomed.apply(service())
    eventually(lambda: pods_of(doomed))
    doomed.cluster.kubectl("delete", "namespace", doomed.name, "--timeout=60s")
    assert operator.metric('headrace_operator_reconciles_total{result="Bug"}') == 0
    assert operator.process.poll() is None
    namespace.apply(service())
    eventually(lambda: pods_of(namespace))
