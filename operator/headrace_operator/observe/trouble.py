"""What keeps a pod from serving: the first thing, in Kubernetes' words. Pure.

A container that ended is in trouble until it is ready again, not only while it waits for its next start: the
same failure reads the same through all of a crash loop.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from headrace_operator.api.names import CONTAINER, FETCH_CONTAINER
from headrace_operator.decide.observation import DOWNLOAD_FAILED
from headrace_operator.observe.last_words import last_words

STARTING_REASONS = frozenset({"ContainerCreating", "PodInitializing"})
_OUT_OF_MEMORY = "OOMKilled"
_FETCHED = re.compile(r"hf://[A-Za-z0-9._/-]{1,300}@([0-9a-f]{40})")

Trouble = tuple[str | None, str | None]
"""One word and a message; both None where the pod is well or simply starting."""


def trouble(pod: Mapping[str, Any]) -> Trouble:
    """Of a pod as the API gives it."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        return status.get("reason") or "Failed", status.get("message")
    fetching = _named(status.get("initContainerStatuses"), FETCH_CONTAINER)
    engine = _named(status.get("containerStatuses"), CONTAINER)
    for found in (
        _of_fetching(fetching, pod),
        _of_container(engine, _memory_limit(pod, "containers", CONTAINER)),
    ):
        if found != (None, None):
            return found
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("reason") or "Unschedulable", condition.get("message")
    return None, None


def engine_status(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state of the engine's container; empty before there is one."""
    return _named(status.get("containerStatuses"), CONTAINER)


def fetched_commit(status: Mapping[str, Any]) -> str | None:
    """The commit of a downloaded model, as the container that fetched it told; None where it told none."""
    fetching = _named(status.get("initContainerStatuses"), FETCH_CONTAINER)
    told = str(((fetching.get("state") or {}).get("terminated") or {}).get("message") or "")
    found = _FETCHED.fullmatch(told.strip())
    return found[1] if found is not None else None


def _of_fetching(container: Mapping[str, Any], pod: Mapping[str, Any]) -> Trouble:
    """A download that ended by itself has its own word; one that the system ended has the system's."""
    memory_limit = _memory_limit(pod, "initContainers", FETCH_CONTAINER)
    word, message = _of_container(container, memory_limit)
    has_ended = _ended(container) is not None
    return (DOWNLOAD_FAILED, message) if has_ended and word not in {None, _OUT_OF_MEMORY} else (word, message)


def _of_container(container: Mapping[str, Any], memory_limit: str | None) -> Trouble:
    ended = _ended(container)
    if ended is not None:
        return ended.get("reason") or "Error", last_words(ended, memory_limit=memory_limit)
    waiting = (container.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") and waiting["reason"] not in STARTING_REASONS:
        return waiting["reason"], waiting.get("message")
    return None, None


def _ended(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """How it ended last; None where it has not, or is ready again or done."""
    if container.get("ready"):
        return None
    ended = (container.get("state") or {}).get("terminated")
    return ended or (container.get("lastState") or {}).get("terminated") or None


def _named(statuses: Iterable[Mapping[str, Any]] | None, name: str) -> Mapping[str, Any]:
    return next((found for found in statuses or () if found.get("name") == name), {})


def _memory_limit(pod: Mapping[str, Any], kind: str, name: str) -> str | None:
    container = _named((pod.get("spec") or {}).get(kind), name)
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return None if limit is None else str(limit)
