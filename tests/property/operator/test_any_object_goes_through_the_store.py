"""Whatever a watch or a LIST tells, the store takes it in or leaves it: one odd object stops nobody."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from operator_strategies import json_values

from headrace_operator.kube.kinds import (
    AUTOSCALERS,
    DEPLOYMENTS,
    INFERENCE_SERVICES,
    PODS,
    SERVICE_LABEL,
    WATCHED,
    Key,
)
from headrace_operator.kube.store import Store

CHAT = Key("default", "chat")
metadata = st.fixed_dictionaries(
    {},
    optional={
        "namespace": st.just("default") | json_values,
        "name": st.sampled_from(["chat", "p"]) | json_values,
        "uid": st.sampled_from(["u", "v"]) | json_values,
        "resourceVersion": st.integers(0, 99).map(str) | json_values,
        "labels": st.fixed_dictionaries({SERVICE_LABEL: st.just("chat") | json_values}) | json_values,
    },
)
targets = st.fixed_dictionaries(
    {"kind": st.just("Deployment") | json_values, "name": st.just("chat-engine") | json_values},
    optional={"apiVersion": st.just("apps/v1") | json_values},
)
specs = st.fixed_dictionaries({"scaleTargetRef": targets | json_values}) | json_values
objects = st.fixed_dictionaries({"metadata": metadata | json_values}, optional={"spec": specs}) | json_values


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "remove", "replace"]),
            st.sampled_from([INFERENCE_SERVICES, DEPLOYMENTS, PODS, AUTOSCALERS]),
            objects,
        ),
        max_size=12,
    )
)
def test_any_json_is_told_and_a_sound_service_stays(told: list[tuple[str, Any, Any]]) -> None:
    woken: list[Key] = []
    store = Store(WATCHED, wake=woken.append)
    for how, kind, obj in told:
        if how == "put":
            store.put(kind, obj)
        elif how == "remove":
            store.remove(kind, obj)
        else:
            store.replace(kind, [obj], resource_version="50")
    sound = {"namespace": "default", "name": "sound", "uid": "sound", "resourceVersion": "1000"}
    store.put(INFERENCE_SERVICES, {"metadata": sound})
    assert woken[-1] == Key("default", "sound")
    assert store.get(INFERENCE_SERVICES, "default", "sound") is not None
    assert all(isinstance(pod, dict) for pod in store.pods_of(CHAT))
    assert all(isinstance(service, dict) for _, service in store.services())
