"""Specs that must be refused, and the field that the refusal has to name: at apply and by `parse` alike."""

from typing import Any

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
    "attainment as percent": ({"slo": {"attainment": "95"}}, "spec.slo.attainment"),
    "attainment of everything": ({"slo": {"attainment": "1.0"}}, "spec.slo.attainment"),
    "attainment too low": ({"slo": {"attainment": "0.1"}}, "spec.slo.attainment"),
    "ttft as a word": ({"slo": {"ttft": "fast"}}, "spec.slo.ttft"),
    "itl of an hour": ({"slo": {"itl": "1h"}}, "spec.slo.itl"),
    "window of a second": ({"slo": {"window": "1s"}}, "spec.slo.window"),
    "unknown scaling mode": ({"scaling": {"mode": "Magic"}}, "spec.scaling.mode"),
    "least above most": ({"scaling": {"minReplicas": 5, "maxReplicas": 4}}, "spec.scaling.minReplicas"),
    "Auto without a most": ({"scaling": {"maxReplicas": None}}, "spec.scaling.maxReplicas"),
    "no replicas at the least": ({"scaling": {"minReplicas": 0}}, "spec.scaling.minReplicas"),
    "stabilization below zero": (
        {"scaling": {"scaleDown": {"stabilization": "-5m"}}},
        "spec.scaling.scaleDown.stabilization",
    ),
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
    "replicas as text": ({"replicas": "three"}, "spec.replicas"),
    "paused as text": ({"paused": "certainly"}, "spec.paused"),
}

BAD_NAMES = (46 * "a", "1chat", "chat.v2")


def without_nulls(document: Any) -> Any:
    """A null takes a field away, as in a merge patch."""
    if not isinstance(document, dict):
        return document
    return {name: without_nulls(value) for name, value in document.items() if value is not None}
