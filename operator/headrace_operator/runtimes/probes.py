"""The probes of an engine's container: where an engine answers differs, when it is given up does not."""

import math
from collections.abc import Mapping
from typing import Any

LIVENESS_PERIOD_S = 10


def engine_probes(
    *,
    ready: str,
    live: str,
    startup_timeout_s: float,
    startup_period_s: int,
    readiness_period_s: int,
    readiness_misses: int,
) -> Mapping[str, Mapping[str, Any]]:
    """Probes of the serving port: `ready` and `live` are its paths. It has started when it is ready, within
    the timeout; after so many misses, a readiness period apart, it leaves the Service.
    """
    return {
        "startupProbe": {
            **_get(ready),
            "periodSeconds": startup_period_s,
            "timeoutSeconds": 2,
            "failureThreshold": math.ceil(startup_timeout_s / startup_period_s),
        },
        "readinessProbe": {
            **_get(ready),
            "periodSeconds": readiness_period_s,
            "timeoutSeconds": 2,
            "failureThreshold": readiness_misses,
        },
        "livenessProbe": {
            **_get(live),
            "periodSeconds": LIVENESS_PERIOD_S,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
    }


def _get(path: str) -> Mapping[str, Any]:
    return {"httpGet": {"path": path, "port": "http"}}
