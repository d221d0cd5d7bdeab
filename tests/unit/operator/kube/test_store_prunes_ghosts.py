"""The store between watches that lose deletions and LISTs that are late."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace_operator.kube.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_SERVICES,
    PODS,
    SERVICE_LABEL,
    WATCHED,
    Key,
)
from headrace_operator.kube.store import Store

CHAT = Key("default", "chat")


def obj(
    name: str, *, version: int, uid: str = "u", service: str | None = "chat", **more: Any
) -> dict[str, Any]:
    labels = {} if service is None else {SERVICE_LABEL: service}
    metadata = {
        "namespace": "default",
        "name": name,
        "uid": uid,
        "resourceVersion": str(version),
        "labels": labels,
    }
    return {"metadata": metadata, **more}


def new_store() -> tuple[Store, list[Key]]:
    woken: list[Key] = []
    return Store(WATCHED, wake=woken.append), woken


def test_a_service_and_all_that_bears_its_label_wake_it():
    store, woken = new_store()
    store.put(INFERENCE_SERVICES, obj("chat", version=1, service=None))
    store.put(DEPLOYMENTS, obj("chat-engine", version=2))
    store.put(PODS, obj("chat-engine-x", version=3))
    assert woken == [CHAT] * 3
    store.put(CONFIG_MAPS, obj("someone-else", version=4, service=None))
    assert woken == [CHAT] * 3


def test_what_is_told_again_or_late_changes_nothing_and_wakes_nobody():
    store, woken = new_store()
    store.put(DEPLOYMENTS, obj("d", version=5, spec="new"))
    store.put(DEPLOYMENTS, obj("d", version=5, spec="new"))
    store.put(DEPLOYMENTS, obj("d", version=4, spec="old"))
    assert store.get(DEPLOYMENTS, "default", "d")["spec"] == "new"
    assert woken == [CHAT]


def test_versions_are_compared_as_numbers():
    store, _ = new_store()
    store.put(DEPLOYMENTS, obj("d", version=9))
    store.put(DEPLOYMENTS, obj("d", version=10))
    assert store.get(DEPLOYMENTS, "default", "d")["metadata"]["resourceVersion"] == "10"


def test_a_list_prunes_what_a_broken_watch_never_told_of():
    store, woken = new_store()
    store.put(PODS, obj("ghost", version=5, uid="g"))
    store.put(PODS, obj("alive", version=6, uid="a"))
    store.replace(PODS, [obj("alive", version=6, uid="a")], resource_version="20")
    assert [pod["metadata"]["name"] for pod in store.pods_of(CHAT)] == ["alive"]
    assert woken[-1] == CHAT


def test_a_late_list_does_not_take_away_what_was_made_since():
    store, _ = new_store()
    store.put(PODS, obj("new", version=30, uid="n"))
    store.replace(PODS, [], resource_version="20")
    assert len(store.pods_of(CHAT)) == 1


def test_a_late_list_does_not_bring_back_what_was_deleted():
    store, _ = new_store()
    store.put(PODS, obj("gone", version=5, uid="g"))
    store.remove(PODS, obj("gone", version=25, uid="g"))
    store.replace(PODS, [obj("gone", version=5, uid="g")], resource_version="20")
    assert store.pods_of(CHAT) == []


def test_the_end_of_an_old_object_does_not_touch_its_namesake():
    store, _ = new_store()
    store.put(INFERENCE_SERVICES, obj("chat", version=5, uid="old"))
    store.put(INFERENCE_SERVICES, obj("chat", version=9, uid="new"))
    store.remove(INFERENCE_SERVICES, obj("chat", version=8, uid="old"))
    assert store.get(INFERENCE_SERVICES, *CHAT)["metadata"]["uid"] == "new"


def test_a_list_of_one_namespace_prunes_that_one_only():
    store, _ = new_store()
    store.put(PODS, obj("here", version=1, uid="h"))
    store.replace(PODS, [], resource_version="20", namespace="elsewhere")
    assert len(store.pods_of(CHAT)) == 1


def test_a_pod_that_loses_the_label_wakes_the_service_that_it_leaves():
    store, woken = new_store()
    store.put(PODS, obj("p", version=1))
    store.put(PODS, obj("p", version=2, service="other"))
    assert store.pods_of(CHAT) == []
    assert len(store.pods_of(Key("default", "other"))) == 1
    assert set(woken[1:]) == {CHAT, Key("default", "other")}


def test_managed_fields_are_not_kept():
    store, _ = new_store()
    given_ = obj("d", version=1)
    given_["metadata"]["managedFields"] = ["long"]
    store.put(DEPLOYMENTS, given_)
    assert "managedFields" not in store.get(DEPLOYMENTS, "default", "d")["metadata"]
    assert "managedFields" in given_["metadata"], "what was given is not changed"


def test_of_a_pod_our_own_managed_fields_are_kept():
    store, _ = new_store()
    pod = obj("p", version=1)
    ours = {"manager": "headrace", "operation": "Apply"}
    pod["metadata"]["managedFields"] = [{"manager": "kubelet"}, ours, "no entry"]
    store.put(PODS, pod)
    [kept] = store.pods_of(CHAT)
    assert kept["metadata"]["managedFields"] == [ours]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("namespace", "name", "uid", "resourceVersion", "labels")
METADATA = (
    st.dictionaries(st.sampled_from(FIELDS), JSON | st.just({SERVICE_LABEL: "chat"}) | st.just("1")) | JSON
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(WATCHED), st.booleans(), JSON | st.builds(lambda m: {"metadata": m}, METADATA)
        )
    )
)
def test_no_object_whatever_its_shape_breaks_the_store(told):
    store, _ = new_store()
    for kind, deleted, thing in told:
        (store.remove if deleted else store.put)(kind, thing)
    for kind in WATCHED:
        store.replace(kind, [], resource_version="999999999999")
    assert store.pods_of(CHAT) == []
