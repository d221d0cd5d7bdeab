"""Who else scales a service: the autoscalers that target it or its Deployment."""

from collections.abc import Mapping
from typing import Any

from headrace_operator.decide.observation import Autoscaler
from headrace_operator.kube.autoscalers import target_of
from headrace_operator.kube.coverage import Coverage
from headrace_operator.kube.kinds import AUTOSCALERS, Key
from headrace_operator.kube.store import Store


def autoscalers_of(key: Key, *, store: Store, coverage: Coverage) -> tuple[Autoscaler, ...] | None:
    """None where they may not be listed."""
    if coverage.unseen_in(AUTOSCALERS, key.namespace) is not None:
        return None
    found = []
    for autoscaler in store.autoscalers_of(key):
        target = target_of(autoscaler)
        if target is not None:
            found.append(Autoscaler(_named(autoscaler["metadata"]), is_of_deployment=target[1]))
    return tuple(found)


def _named(metadata: Mapping[str, Any]) -> str:
    owners = metadata.get("ownerReferences") or ()
    owner = next((found for found in owners if isinstance(found, dict) and found.get("controller")), None)
    of = f" (of {owner.get('kind')} {owner.get('name')})" if owner is not None else ""
    return f"HorizontalPodAutoscaler {metadata['name']}{of}"
