"""A thousand services are nine thousand objects: what they take, and that nothing is lost on the way."""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from operator_builders import SETTINGS, TUNED_CHAT

from headrace_operator.api.parsing import parse
from headrace_operator.api.status import Previous
from headrace_operator.decide.controller import decide
from headrace_operator.decide.observation import Observation
from headrace_operator.kube.kinds import DEPLOYMENTS, WATCHED, Key, kind_of
from headrace_operator.kube.packed import PackedObjects
from headrace_operator.kube.store import Store

NAME = Key("default", "chat")


def a_deployment(number: int = 0) -> dict[str, Any]:
    metadata = {"namespace": "default", "name": f"chat-{number}", "uid": f"uid-{number}", "generation": 1}
    live = {"metadata": metadata, "spec": TUNED_CHAT}
    plan = decide(Observation({}, Previous()), parse(live), settings=SETTINGS, now_s=1e9)
    manifest = next(found for found in plan.objects if kind_of(found) is DEPLOYMENTS)
    return json.loads(json.dumps(manifest))


@pytest.mark.parametrize(
    "found", [{"a": "\ud800"}, {"a": 2**70}, {"a": [1.5, None, True, "ä"]}, {}], ids=ascii
)
def test_what_is_put_is_what_is_read(found: dict[str, Any]) -> None:
    packed = PackedObjects()
    packed[NAME] = found
    assert packed[NAME] == found
    assert dict(packed) == {NAME: found}


def test_what_is_read_may_be_changed_by_whoever_read_it() -> None:
    store = Store(WATCHED, wake=lambda _key: None)
    store.put(DEPLOYMENTS, a_deployment())
    read = store.get(DEPLOYMENTS, "default", "chat-0-engine")
    assert read is not None
    read["spec"].clear()
    assert store.get(DEPLOYMENTS, "default", "chat-0-engine") == a_deployment()


def test_a_deployment_takes_little_more_than_its_text() -> None:
    def bytes_taken(keep: Callable[[], object]) -> int:
        tracemalloc.start()
        kept = keep()
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept is not None
        return taken

    texts = [json.dumps(a_deployment(number)) for number in range(50)]

    def stored() -> Store:
        store = Store(WATCHED, wake=lambda _key: None)
        for text in texts:
            store.put(DEPLOYMENTS, json.loads(text))
        return store

    stored()
    assert bytes_taken(stored) < 1.5 * sum(map(len, texts)) + 50 * 1000
    assert bytes_taken(lambda: [json.loads(text) for text in texts]) > 3 * sum(map(len, texts))
