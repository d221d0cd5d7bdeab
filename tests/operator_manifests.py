"""Specs that must be refused, and the field that the refusal has to name: at apply and by `parse` alike."""

from typing import Any

KEY = 64 * "a"
VLLM: dict[str, Any] = {
    "engine": {"runtime": "vllm", "image": "vllm/vllm-openai:v0.32.0"},
    "scaling": {"mode": "Fixed"},
    "tuning": {"mode": "Off"},
}


def node_affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def apart_from(term: dict[str, Any], *, weight: int = 1) -> dict[str, Any]:
    pods = {"weight": weight, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", **term}}
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [pods]}}}


BAD_SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": None}, "spec.model"),
    "unknown scheme": ({"model": {"uri": "s3://bucket/model"}}, "spec.model.uri"),
    "scheme without a host": ({"model": {"uri": "file://opt/model"}}, "spec.model.uri"),
    "path upwards": ({"model": {"uri": "pvc://models/a/../../etc"}}, "spec.model.uri"),
    "uri with a shell in it": ({"model": {"uri": "pvc://models/$(id)"}}, "spec.model.uri"),
    "uri too long": ({"model": {"uri": "file:///" + 600 * "x"}}, "spec.model.uri"),
    "revision of a claim": ({"model": {"revision": "main"}}, "spec.model.revision"),
    "served name with a space": ({"model": {"servedName": "a b"}}, "spec.model.servedName"),
    "unknown runtime": ({"engine": {"runtime": "sglang"}}, "spec.engine.runtime"),
    "image with a space": ({"engine": {"image": "a b"}}, "spec.engine.image"),
    "runtime class in capitals": ({"engine": {"runtimeClassName": "NVIDIA"}}, "spec.engine.runtimeClassName"),
    "no GPU at all": ({"engine": {"gpu": {"count": 0}}}, "spec.engine.gpu.count"),
    "no threads": ({"engine": {"threads": 0}}, "spec.engine.threads"),
    "quantity that is none": (
        {"engine": {"resources": {"requests": {"cpu": "two"}}}},
        "spec.engine.resources.requests.cpu",
    ),
    "negative quantity": (
        {"engine": {"resources": {"requests": {"cpu": -1}}}},
        "spec.engine.resources.requests.cpu",
    ),
    "request above limit": (
        {"engine": {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1500Mi"}}}},
        "spec.engine.resources.requests",
    ),
    "no sequences": ({"engine": {"limits": {"maxNumSeqs": 0}}}, "spec.engine.limits.maxNumSeqs"),
    "budget below sequences": (
        {"engine": {"limits": {"maxNumSeqs": 16, "maxNumBatchedTokens": 8}}},
        "spec.engine.limits.maxNumBatchedTokens",
    ),
    "drain timeout without a unit": ({"engine": {"drainTimeout": "60"}}, "spec.engine.drainTimeout"),
    "drain timeout of a day": ({"engine": {"drainTimeout": "24h"}}, "spec.engine.drainTimeout"),
    "no time to start": ({"engine": {"startupTimeout": "1s"}}, "spec.engine.startupTimeout"),
    "node selector with a bad key": (
        {"engine": {"template": {"nodeSelector": {"-zone": "a"}}}},
        "spec.engine.template.nodeSelector",
    ),
    "node selector with a bad value": (
        {"engine": {"template": {"nodeSelector": {"zone": "a b"}}}},
        "spec.engine.template.nodeSelector",
    ),
    "toleration without a key": (
        {"engine": {"template": {"tolerations": [{"operator": "Equal", "value": "a"}]}}},
        "spec.engine.template.tolerations",
    ),
    "system priority": (
        {"engine": {"template": {"priorityClassName": "system-node-critical"}}},
        "spec.engine.template.priorityClassName",
    ),
    "node affinity of nothing": (
        {"engine": {"template": node_affinity({"key": "zone", "operator": "In"})}},
        "spec.engine.template.affinity.nodeAffinity",
    ),
    "node affinity to values that do not matter": (
        {"engine": {"template": node_affinity({"key": "zone", "operator": "Exists", "values": ["a"]})}},
        "spec.engine.template.affinity.nodeAffinity",
    ),
    "node affinity above a word": (
        {"engine": {"template": node_affinity({"key": "memory", "operator": "Gt", "values": ["much"]})}},
        "spec.engine.template.affinity.nodeAffinity",
    ),
    "node affinity by a bad key": (
        {"engine": {"template": node_affinity({"key": "-zone", "operator": "Exists"})}},
        "spec.engine.template.affinity.nodeAffinity",
    ),
    "node affinity without expressions": (
        {"engine": {"template": node_affinity()}},
        "spec.engine.template.affinity.nodeAffinity",
    ),
    "anti-affinity by a bad label": (
        {"engine": {"template": apart_from({"labelSelector": {"matchLabels": {"-app": "web"}}})}},
        "spec.engine.template.affinity.podAntiAffinity",
    ),
    "anti-affinity of no weight": (
        {"engine": {"template": apart_from({}, weight=0)}},
        "spec.engine.template.affinity.podAntiAffinity",
    ),
    "spread over one label twice": (
        {"engine": {"template": {"topologySpreadConstraints": 2 * [{"topologyKey": "zone"}]}}},
        "spec.engine.template.topologySpreadConstraints",
    ),
    "spread without a difference": (
        {"engine": {"template": {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 0}]}}},
        "spec.engine.template.topologySpreadConstraints",
    ),
    "attainment as percent": ({"slo": {"attainment": "95"}}, "spec.slo.attainment"),
    "attainment of everything": ({"slo": {"attainment": "1.0"}}, "spec.slo.attainment"),
    "attainment too low": ({"slo": {"attainment": "0.1"}}, "spec.slo.attainment"),
    "ttft as a word": ({"slo": {"ttft": "fast"}}, "spec.slo.ttft"),
    "itl of an hour": ({"slo": {"itl": "1h"}}, "spec.slo.itl"),
    "end of a request after a week": ({"slo": {"e2e": "168h"}}, "spec.slo.e2e"),
    "window of a second": ({"slo": {"window": "1s"}}, "spec.slo.window"),
    "unknown scaling mode": ({"scaling": {"mode": "Magic"}}, "spec.scaling.mode"),
    "least above most": ({"scaling": {"minReplicas": 5, "maxReplicas": 4}}, "spec.scaling.minReplicas"),
    "Auto without a most": ({"scaling": {"maxReplicas": None}}, "spec.scaling.maxReplicas"),
    "no replicas at the least": ({"scaling": {"minReplicas": 0}}, "spec.scaling.minReplicas"),
    "stabilization below zero": (
        {"scaling": {"scaleDown": {"stabilization": "-5m"}}},
        "spec.scaling.scaleDown.stabilization",
    ),
    "step up of nothing": ({"scaling": {"scaleUp": {"maxStepPods": 0}}}, "spec.scaling.scaleUp.maxStepPods"),
    "step up by less": (
        {"scaling": {"scaleUp": {"maxStepPercent": -50}}},
        "spec.scaling.scaleUp.maxStepPercent",
    ),
    "step down of nothing": (
        {"scaling": {"scaleDown": {"maxStepPods": 0}}},
        "spec.scaling.scaleDown.maxStepPods",
    ),
    "period of a week": ({"scaling": {"scaleDown": {"period": "168h"}}}, "spec.scaling.scaleDown.period"),
    "period as a number": ({"scaling": {"scaleDown": {"period": "120"}}}, "spec.scaling.scaleDown.period"),
    "Auto without a target": ({"slo": {"ttft": None, "itl": None}}, "spec.slo"),
    "bound above capacity": (
        {"tuning": {"bounds": {"maxNumSeqs": {"max": 32}}}},
        "spec.tuning.bounds.maxNumSeqs.max",
    ),
    "lower bound above capacity": (
        {"tuning": {"bounds": {"maxNumBatchedTokens": {"min": 4096}}}},
        "spec.tuning.bounds.maxNumBatchedTokens.min",
    ),
    "bounds upside down": (
        {"tuning": {"bounds": {"maxNumSeqs": {"min": 8, "max": 4}}}},
        "spec.tuning.bounds.maxNumSeqs.min",
    ),
    "interval of a second": ({"tuning": {"interval": "1s"}}, "spec.tuning.interval"),
    "change of nothing": ({"tuning": {"maxChangePercent": 0}}, "spec.tuning.maxChangePercent"),
    "negative replicas": ({"replicas": -1}, "spec.replicas"),
    "token for a claim": ({"model": {"secretRef": {"name": "hub"}}}, "spec.model.secretRef"),
    "cache for a claim": ({"model": {"cache": {"size": "1Gi"}}}, "spec.model.cache"),
    "cache of two kinds": (
        {"model": {"uri": "hf://org/name", "cache": {"claimName": "models", "size": "1Gi"}}},
        "spec.model.cache.size",
    ),
    "token Secret without a name": (
        {"model": {"uri": "hf://org/name", "secretRef": {}}},
        "spec.model.secretRef",
    ),
    "flag that limits own": ({"engine": {"args": ["--max-num-seqs", "512"]}}, "spec.engine.args"),
    "owned flag with its value": ({"engine": {"args": ["--max-num-batched-tokens=9"]}}, "spec.engine.args"),
    "start of an owned flag": ({"engine": {"args": ["--admin-tok=/tmp/x"]}}, "spec.engine.args"),
    "owned flag with underscores": ({"engine": {"args": ["--max_num_seqs=9"]}}, "spec.engine.args"),
    "short flag": ({"engine": {"args": ["-tp", "2"]}}, "spec.engine.args"),
    "end of flags": ({"engine": {"args": ["--", "other-model"]}}, "spec.engine.args"),
    "secret on the command line": ({"engine": {"args": ["--api-key=sesame"]}}, "spec.engine.args"),
    "line break in an argument": ({"engine": {"args": ["--dtype=float32\n--port=1"]}}, "spec.engine.args"),
    "too many arguments": ({"engine": {"args": 65 * ["--seed=1"]}}, "spec.engine.args"),
    "variable of the operator": (
        {"engine": {"env": [{"name": "HEADRACE_HOST", "value": "0.0.0.0"}]}},
        "spec.engine.env",
    ),
    "variable of the loader": (
        {"engine": {"env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}},
        "spec.engine.env",
    ),
    "variable in small letters": ({"engine": {"env": [{"name": "path", "value": "/"}]}}, "spec.engine.env"),
    "variable set twice": (
        {"engine": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}},
        "spec.engine.env",
    ),
    "several GPUs for Headrace's engine": ({"engine": {"gpu": {"count": 2}}}, "spec.engine.gpu.count"),
    "split over more GPUs than there are": (
        {**VLLM, "engine": {**VLLM["engine"], "gpu": {"count": 2, "tensorParallel": 4}}},
        "spec.engine.gpu.tensorParallel",
    ),
    "GPU class told twice": (
        {
            "engine": {
                "gpu": {"count": 1, "class": "L4"},
                "template": {"nodeSelector": {"nvidia.com/gpu.product": "A100"}},
            }
        },
        "spec.engine.template.nodeSelector",
    ),
    "label of the operator": (
        {"engine": {"template": {"labels": {"headrace.dev/inferenceservice": "other"}}}},
        "spec.engine.template.labels",
    ),
    "vLLM without an image": ({**VLLM, "engine": {"runtime": "vllm"}}, "spec.engine.image"),
    "threads for vLLM": ({**VLLM, "engine": {**VLLM["engine"], "threads": 2}}, "spec.engine.threads"),
    "deadline for vLLM": ({**VLLM, "slo": {"queueDeadline": "2s"}}, "spec.slo.queueDeadline"),
    "tenants for vLLM": ({**VLLM, "tenants": {"keys": {KEY: "acme"}}}, "spec.tenants"),
    "no headroom": ({"scaling": {"headroom": "0.01"}}, "spec.scaling.headroom"),
    "GPU budget without GPUs": ({"scaling": {"gpuBudget": 4}}, "spec.scaling.gpuBudget"),
    "GPU budget below the least": (
        {"engine": {"gpu": {"count": 1}}, "scaling": {"minReplicas": 3, "gpuBudget": 2}},
        "spec.scaling.minReplicas",
    ),
    "more replicas than the GPU budget": (
        {"engine": {"gpu": {"count": 1}}, "scaling": {"gpuBudget": 2}, "replicas": 3},
        "spec.replicas",
    ),
    "rollback on anything": ({"tuning": {"rollbackOn": {"attainmentDrop": "0.0"}}}, "spec.tuning.rollbackOn"),
    "identity by header": ({"tenants": {"identity": "TrustedHeader"}}, "spec.tenants.identity"),
    "key in the clear": ({"tenants": {"keys": {"sesame": "acme"}}}, "spec.tenants.keys"),
    "tenant with a space": ({"tenants": {"keys": {KEY: "a b"}}}, "spec.tenants.keys"),
    "tenants without keys": ({"tenants": {"items": [{"name": "acme"}]}}, "spec.tenants.items"),
    "tenant twice": (
        {"tenants": {"keys": {KEY: "acme"}, "items": [{"name": "acme"}, {"name": "acme", "weight": 2}]}},
        "spec.tenants.items",
    ),
    "tenant without weight": (
        {"tenants": {"keys": {KEY: "acme"}, "items": [{"name": "acme", "weight": 0}]}},
        "spec.tenants.items[0].weight",
    ),
    "class that does not exist": (
        {"tenants": {"default": {"priority": 20}}},
        "spec.tenants.default.priority",
    ),
    "best class after its own": (
        {"tenants": {"default": {"priority": 3, "bestPriority": 5}}},
        "spec.tenants.default.bestPriority",
    ),
    "tenant without requests": (
        {"tenants": {"default": {"limits": {"requestsPerMinute": 0}}}},
        "spec.tenants.default.limits.requestsPerMinute",
    ),
    "tenant with part of a token": (
        {"tenants": {"default": {"limits": {"tokensPerMinute": 0.5}}}},
        "spec.tenants.default.limits.tokensPerMinute",
    ),
    "more shares than there are": (
        {
            "tenants": {
                "keys": {KEY: "acme"},
                "items": [{"name": "acme", "minShare": "0.6"}, {"name": "bolt", "minShare": "0.5"}],
            }
        },
        "spec.tenants.items",
    ),
    "share beyond one": (
        {"tenants": {"keys": {KEY: "acme"}, "items": [{"name": "acme", "minShare": "1.5"}]}},
        "spec.tenants.items[0].minShare",
    ),
    "tenant that waits for no time": (
        {"tenants": {"default": {"slo": {"queueDeadline": "0s"}}}},
        "spec.tenants.default.slo.queueDeadline",
    ),
    "tenant beyond the pod": (
        {"tenants": {"keys": {KEY: "acme"}, "items": [{"name": "acme", "limits": {"maxNumSeqs": 17}}]}},
        "spec.tenants.items",
    ),
    "client that is everybody": ({"network": {"clients": [{}]}}, "spec.network.clients[0]"),
    "client by a bad label": (
        {"network": {"clients": [{"podLabels": {"app": "a b"}}]}},
        "spec.network.clients[0].podLabels",
    ),
    "unknown strategy": ({"rollout": {"strategy": "BlueGreen"}}, "spec.rollout.strategy"),
    "rollout that cannot move": ({"rollout": {"maxSurge": 0, "maxUnavailable": 0}}, "spec.rollout.maxSurge"),
    "rollout given up before pods can start": (
        {"rollout": {"progressDeadline": "5m"}},
        "spec.rollout.progressDeadline",
    ),
    "replicas as text": ({"replicas": "three"}, "spec.replicas"),
    "paused as text": ({"paused": "certainly"}, "spec.paused"),
}

BAD_NAMES = (46 * "a", "1chat", "chat.v2")


def without_nulls(document: Any) -> Any:
    """A null takes a field away, as in a merge patch."""
    if not isinstance(document, dict):
        return document
    return {name: without_nulls(value) for name, value in document.items() if value is not None}
