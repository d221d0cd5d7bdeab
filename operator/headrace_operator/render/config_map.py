"""What engines read when they start: active limits, SLO targets, whose calls to accept, who are tenants.

Pods mount it as a volume, so that those which run see a change within about a minute. Engines read API keys
and tenants' terms again then; limits move by a call, and targets are those of an engine's start.
"""

import json
from typing import Any

from headrace_operator.api.names import (
    ADMIN_KEYS_KEY,
    API_KEYS_KEY,
    LIMITS_KEY,
    SLO_ITL_KEY,
    SLO_TTFT_KEY,
    engine_name,
)
from headrace_operator.api.spec import Limits, ServiceSpec, Tenants, Terms
from headrace_operator.render.metadata import child


def config_map(spec: ServiceSpec, *, limits: Limits, admin_keys: str) -> dict[str, Any]:
    """The ConfigMap of a service."""
    start = {"max_num_seqs": limits.max_num_seqs, "max_num_batched_tokens": limits.max_num_batched_tokens}
    data = {
        LIMITS_KEY: json.dumps(start),
        ADMIN_KEYS_KEY: admin_keys,
        API_KEYS_KEY: json.dumps(tenancy(spec.tenants), sort_keys=True),
    }
    for key, target_s in ((SLO_TTFT_KEY, spec.slo.ttft_s), (SLO_ITL_KEY, spec.slo.itl_s)):
        if target_s is not None:
            data[key] = f"{target_s * 1000:g}"
    return child(
        spec, api_version="v1", kind="ConfigMap", name=engine_name(spec.name), content={"data": data}
    )


def tenancy(tenants: Tenants) -> dict[str, Any]:
    """The document that engines take as `--api-keys`. Without keys it says that nobody needs one."""
    terms = {"default": _terms(tenants.default), "items": {name: _terms(own) for name, own in tenants.items}}
    return {"keys": dict(tenants.keys) or None, "tenants": terms}


def _terms(terms: Terms) -> dict[str, Any]:
    return {
        "weight": terms.weight,
        "max_num_seqs": terms.max_num_seqs,
        "max_num_queued_reqs": terms.max_num_queued_reqs,
        "max_num_queued_tokens": terms.max_num_queued_tokens,
    }
