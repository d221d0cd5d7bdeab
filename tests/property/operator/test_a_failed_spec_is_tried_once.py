"""Specs that come up and specs that do not, edited in any order: what failed is tried once each time that it
is asked for, and in the end pods are of what is asked for, or of what served last.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from operator_builders import NOW_S, SETTINGS, merged, observation, pod, service

from headrace_operator.api.rollout_memory import read_rollout
from headrace_operator.api.status_reading import read
from headrace_operator.decide.controller import decide
from headrace_operator.render.pod_template import pod_template, template_hash

SERVES = ({}, {"engine": {"threads": 2}})
BREAKS = ({"engine": {"threads": 3}}, {"engine": {"threads": 4}})
LIVE = ({}, {"slo": {"ttft": "3s"}}, {"paused": True})
SETTLED = 4
"""Reconciles after which nothing moves any more."""


def digest(spec: dict[str, Any]) -> str:
    made = pod_template(service(spec), image=SETTINGS.engine_image, admin_keys=SETTINGS.admin_keys)
    return template_hash(made) or ""


BROKEN = frozenset(map(digest, BREAKS))


@dataclass
class Cluster:
    """Two pods at the most: one of what serves, and beside it one of what does not come up."""

    status: dict[str, Any] = field(default_factory=dict)
    live: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    """Templates by ReplicaSet."""
    serving: str | None = None
    tried: list[str] = field(default_factory=list)
    now_s: float = NOW_S

    def reconcile(self, spec: dict[str, Any], generation: int) -> None:
        asked = service(spec, generation=generation)
        good = (self.status.get("rollout") or {}).get("good") or {}
        seen = replace(
            observation(asked, pods=self.pods(), previous=read(self.status), children=self.live),
            good_template=self.kept.get(good.get("replicaSet", "")),
        )
        plan = decide(seen, asked, settings=SETTINGS, now_s=self.now_s)
        self.status = dict(plan.status or self.status)
        for made in plan.objects:
            if made["kind"] == "Deployment":
                self.follow(made)
        self.now_s += 60

    def follow(self, made: dict[str, Any]) -> None:
        """What the Deployment controller and the kubelet make of it."""
        template, before = made["spec"]["template"], self.live.get("Deployment")
        carried = template_hash(template) or ""
        if before is None or template_hash(before["spec"]["template"]) != carried:
            self.tried.append(carried)
        self.kept[f"rs-{carried}"] = template
        self.serving = self.serving if carried in BROKEN else carried
        replicas = len(self.pods(carried))
        counts = {"replicas": replicas, "updatedReplicas": 1, "readyReplicas": int(self.serving is not None)}
        self.live = {"Deployment": merged(made, {"metadata": {"generation": 1}})}
        self.live["Deployment"]["status"] = {"observedGeneration": 1, **counts}

    def pods(self, carried: str | None = None) -> tuple[Any, ...]:
        if carried is None and "Deployment" in self.live:
            carried = template_hash(self.live["Deployment"]["spec"]["template"])
        fine = [pod(0, template=self.serving, replica_set=f"rs-{self.serving}")] if self.serving else []
        broken = {"ready": False, "trouble": "Error", "restarts": 2, "replica_set": f"rs-{carried}"}
        return (*fine, *([pod(1, template=carried, **broken)] if carried in BROKEN else []))


edits = st.tuples(st.sampled_from((*SERVES, *BREAKS)), st.sampled_from(LIVE), st.integers(1, SETTLED))


@given(st.lists(edits, min_size=1, max_size=8))
@settings(max_examples=60)
def test_in_whatever_order_specs_come(story: list[tuple[dict[str, Any], dict[str, Any], int]]) -> None:
    cluster, asked = Cluster(), []
    for generation, (starts_with, live, reconciles) in enumerate(story, start=1):
        spec = merged(starts_with, live)
        if not asked or asked[-1] != digest(spec):
            asked.append(digest(spec))
        for _ in range(reconciles):
            cluster.reconcile(spec, generation)
    for _ in range(SETTLED):
        cluster.reconcile(spec, generation)
    for broken in BROKEN:
        assert cluster.tried.count(broken) <= asked.count(broken)
    carried = template_hash(cluster.live["Deployment"]["spec"]["template"])
    wanted, memory = digest(spec), read_rollout(cluster.status["rollout"])
    assert memory is not None
    if wanted in BROKEN and memory.good is not None:
        assert carried == memory.good.template
        assert memory.failed is not None
    else:
        assert carried == wanted
        assert memory.failed is None
