"""What engines read when they start: active limits, SLO targets, whose calls to accept, who are tenants.

Pods mount it as a volume, so that those which run see a change within about a minute. Engines read API keys
again then; limits and tenants' terms move by a call before that, targets are those of an engine's start.
"""

import json
from dataclasses import asdict
from typing import Any

from headrace_engine.core.contract import Contract
from headrace_operator.api.names import (
    ADMIN_KEYS_KEY,
    API_KEYS_KEY,
    LIMITS_KEY,
    SLO_ITL_KEY,
    SLO_TTFT_KEY,
    engine_name,
)
from headrace_operator.api.spec import Limits, ServiceSpec, Tenants
from headrace_operator.render.metadata import child
from headrace_operator.runtimes.terms import change_of_terms, contract


def config_map(
    spec: ServiceSpec, *, limits: Limits, admin_keys: str, ready_replicas: int = 0
) -> dict[str, Any]:
    """The ConfigMap of a service."""
    start = {"max_num_seqs": limits.max_num_seqs, "max_num_batched_tokens": limits.max_num_batched_tokens}
    data = {
        LIMITS_KEY: json.dumps(start),
        ADMIN_KEYS_KEY: admin_keys,
        API_KEYS_KEY: json.dumps(tenancy(spec.tenants, ready_replicas), sort_keys=True),
    }
    for key, target_s in ((SLO_TTFT_KEY, spec.slo.ttft_s), (SLO_ITL_KEY, spec.slo.itl_s)):
        if target_s is not None:
            data[key] = f"{target_s * 1000:g}"
    return child(
        spec, api_version="v1", kind="ConfigMap", name=engine_name(spec.name), content={"data": data}
    )


def tenancy(tenants: Tenants, ready_replicas: int) -> dict[str, Any]:
    """The document that engines take as `--api-keys`. Without keys it says that nobody needs one."""
    terms = change_of_terms(asdict(Contract()), contract(tenants, ready_replicas=ready_replicas))
    return {"keys": dict(tenants.keys) or None, "tenants": terms}
