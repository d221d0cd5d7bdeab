"""The API server's own record of what ServiceAccounts wrote: who, what, when, and with which token.

Kubernetes' own controllers are left out, for they write most of all.
"""

import json
from pathlib import Path

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {
            "level": "Metadata",
            "userGroups": ["system:serviceaccounts"],
            "verbs": ["create", "update", "patch", "delete", "deletecollection"],
        },
        {"level": "None"},
    ],
}


def audit_flags(log: Path) -> list[str]:
    """Write the policy beside `log`; the API server's flags. Each line of the log is one audit Event."""
    policy = log.with_suffix(".policy.json")
    policy.write_text(json.dumps(POLICY))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]
