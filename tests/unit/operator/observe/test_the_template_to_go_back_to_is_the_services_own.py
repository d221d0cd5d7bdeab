"""After a failed rollout pods are made of what a ReplicaSet keeps: one of the service's own, and only what
the status remembers. A status that somebody forged brings no other pods about.
"""

from copy import deepcopy

import pytest
from operator_builders import SETTINGS, service

from headrace_operator.api.rollout_memory import GoodRevision, RolloutMemory, read_rollout, rollout_document
from headrace_operator.api.spec import Limits
from headrace_operator.observe.revisions import kept_template
from headrace_operator.render.pod_template import pod_template, template_hash

TEMPLATE = pod_template(service(), image=SETTINGS.engine_image, admin_keys=SETTINGS.admin_keys)
GOOD = GoodRevision(template_hash(TEMPLATE), "chat-engine-5d9c", Limits(16, 512))
DEPLOYMENT = {"metadata": {"name": "chat-engine", "uid": "dep"}}


def replica_set(owner="dep", template=TEMPLATE):
    kept = deepcopy(template)
    kept["metadata"]["labels"]["pod-template-hash"] = "5d9c"
    kept["metadata"]["creationTimestamp"] = None
    kept["spec"]["dnsPolicy"] = "ClusterFirst"
    owners = [{"kind": "Deployment", "name": "chat-engine", "uid": owner, "controller": True}]
    return {"metadata": {"ownerReferences": owners}, "spec": {"template": kept}}


def test_it_is_what_was_rendered_and_what_the_api_server_filled_in():
    found = kept_template(replica_set(), GOOD, DEPLOYMENT)
    assert found["metadata"] == TEMPLATE["metadata"]
    assert found["spec"] == {**TEMPLATE["spec"], "dnsPolicy": "ClusterFirst"}


@pytest.mark.parametrize(
    "forged",
    [
        replica_set(owner="another"),
        replica_set(template={"metadata": {"labels": {}}, "spec": {"containers": [{"image": "evil:1"}]}}),
    ],
    ids=["another Deployment's", "of another template"],
)
def test_another_one_is_not_taken(forged):
    assert kept_template(forged, GOOD, DEPLOYMENT) is None


def test_the_memory_is_read_back_as_it_was_written():
    memory = RolloutMemory("abc", 1_800_000_000.0, good=GOOD, lacks_gpu_since_s=1_800_000_060.0)
    assert read_rollout(rollout_document(memory)) == memory


@pytest.mark.parametrize(
    "broken",
    [None, 7, {"template": 7, "since": "2027-01-15T08:00:00Z"}, {"template": "abc", "since": "yesterday"}],
)
def test_a_memory_that_cannot_be_read_is_none(broken):
    assert read_rollout(broken) is None


@pytest.mark.parametrize("count", [0, -1, 2**40, True, "16", None])
def test_a_forged_capacity_makes_the_revision_unknown(count):
    document = rollout_document(RolloutMemory("abc", 1_800_000_000.0, good=GOOD))
    document["good"]["maxNumSeqs"] = count
    assert read_rollout(document).good is None
