"""A new spec whose engines do not come up: the pods of the last one that served return, and stay."""

from dataclasses import replace

import pytest
from operator_builders import NOW_S, SETTINGS, deployment, merged, observation, pod, service

from headrace_operator.api.status_reading import read
from headrace_operator.decide.controller import decide
from headrace_operator.render.pod_template import pod_template, template_hash

GOOD, BAD = {}, {"engine": {"limits": {"maxNumSeqs": 4096, "maxNumBatchedTokens": 8192}}}
OTHER = {"engine": {"threads": 2}}
DEADLINE_S = 20 * 60.0
"""Of a start-up timeout of 15 minutes, which is the default."""
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}


def template(spec):
    image = spec.engine.image or SETTINGS.engine_image
    return pod_template(spec, image=image, admin_keys=SETTINGS.admin_keys)


def of(spec, number, *, replica_set, **fields):
    return pod(number, template=template_hash(template(spec)), replica_set=replica_set, **fields)


def crashed(spec, *, restarts=2, **fields):
    known = {"trouble": "Error", "trouble_message": "no memory for 4096 sequences", "restarts": restarts}
    return of(spec, 1, replica_set="chat-engine-bad", ready=False, **{**known, **fields})


class World:
    """What the API server keeps from one reconcile to the next; each is by an operator that just started."""

    def __init__(self, spec=GOOD):
        self.status, self.generation, self.now_s, self.events = {}, 1, NOW_S, []
        self.live, self.follows = None, True
        self.edit(spec)

    def edit(self, spec):
        self.generation += 1
        self.spec = service(spec, generation=self.generation)

    def look(self, *pods, rolling=False, conditions=(), kept=True):
        """One reconcile, carried out. `rolling`: one pod is still of an older template."""
        children = (
            {} if self.live is None else {"Deployment": self._deployment(len(pods), rolling, conditions)}
        )
        seen = observation(self.spec, pods=pods, previous=read(self.status), children=children)
        seen = replace(seen, good_template=template(service(GOOD)) if kept else None)
        plan = decide(seen, self.spec, settings=SETTINGS, now_s=self.now_s)
        self.status = plan.status or self.status
        self.events += [event for event in plan.events if event.type == "Warning"]
        made = next((found for found in plan.objects if found["kind"] == "Deployment"), None)
        self.live = made or self.live
        return plan

    def _deployment(self, replicas, rolling, conditions):
        made = deployment(replicas, spec=self.spec, updated=replicas - rolling)
        ready = {"readyReplicas": replicas - rolling, "conditions": list(conditions)}
        generation = 1 if self.follows else 2
        return merged(self.live, {"metadata": {"generation": generation}, "status": made["status"] | ready})

    @property
    def progressing(self):
        return self.condition("Progressing")

    @property
    def tuning(self):
        return self.condition("TuningActive")

    def condition(self, kind):
        found = next(item for item in self.status["conditions"] if item["type"] == kind)
        return found["status"], found["reason"]

    def runs(self, spec):
        return template_hash(self.live["spec"]["template"]) == template_hash(template(service(spec)))


@pytest.fixture
def serving():
    """A service whose pods of the good spec serve, and have been seen to."""
    world = World()
    world.look()
    one = of(world.spec, 0, replica_set="chat-engine-good")
    world.look(one)
    assert world.status["rollout"]["good"]["replicaSet"] == "chat-engine-good"
    return world


def attempt(world, spec=BAD):
    world.edit(spec)
    world.look(of(service(GOOD), 0, replica_set="chat-engine-good"))
    assert world.runs(spec)


def both(world, new):
    return of(service(GOOD), 0, replica_set="chat-engine-good"), new(world.spec)


def test_from_the_edit_on_status_says_that_pods_are_replaced(serving):
    """Not a moment later: `kubectl wait` would take the last rollout's end for this one's."""
    assert serving.progressing == ("False", "RolloutComplete")
    attempt(serving)
    assert serving.progressing == ("True", "RolloutInProgress")


def test_until_the_cluster_follows_it_is_a_rollout_still(serving):
    attempt(serving)
    serving.follows = False
    serving.look(of(service(GOOD), 0, replica_set="chat-engine-good"))
    assert serving.progressing == ("True", "RolloutInProgress")


def test_another_number_of_pods_is_no_rollout(serving):
    serving.edit({"replicas": 2})
    serving.look(of(service(GOOD), 0, replica_set="chat-engine-good"))
    serving.follows = False
    serving.look(of(service(GOOD), 0, replica_set="chat-engine-good"))
    assert serving.progressing == ("True", "Scaling")


def test_pods_that_end_again_and_again_bring_the_last_good_template_back(serving):
    attempt(serving)
    serving.look(*both(serving, crashed), rolling=True)
    assert serving.runs(GOOD)
    assert serving.progressing == ("False", "RolledBack")
    [event] = serving.events
    assert event.reason == "RolledBack"
    assert "no memory for 4096 sequences" in event.message
    assert serving.status["rollout"]["failed"]["reason"] == "EngineFailed"


def test_one_end_may_be_the_nodes_doing(serving):
    attempt(serving)
    serving.look(*both(serving, lambda spec: crashed(spec, restarts=1)), rolling=True)
    assert serving.runs(BAD)


def test_pods_that_do_not_become_ready_are_waited_for_until_the_deadline(serving):
    attempt(serving)

    def stuck(spec):
        return crashed(spec, trouble="ImagePullBackOff", trouble_message="no such image", restarts=0)

    serving.now_s += DEADLINE_S - 1
    serving.look(*both(serving, stuck), rolling=True, conditions=[LATE])
    assert serving.runs(BAD), "a condition that an earlier rollout left says nothing about this one"
    serving.now_s += 1
    serving.look(*both(serving, stuck), rolling=True)
    assert serving.runs(BAD), "there was progress meanwhile"
    serving.look(*both(serving, stuck), rolling=True, conditions=[LATE])
    assert serving.runs(GOOD)
    assert serving.status["rollout"]["failed"]["reason"] == "ImagePullFailed"


def test_a_clock_that_was_ahead_does_not_put_the_deadline_off(serving):
    attempt(serving)
    new = both(serving, lambda spec: crashed(spec, trouble="ImagePullBackOff", restarts=0))
    serving.now_s -= 3600
    serving.look(*new, rolling=True)
    serving.now_s += DEADLINE_S
    serving.look(*new, rolling=True, conditions=[LATE])
    assert serving.runs(GOOD)


def test_pods_that_the_api_server_refuses_are_told_in_its_words(serving):
    attempt(serving)
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"}
    one = of(service(GOOD), 0, replica_set="chat-engine-good")
    serving.now_s += DEADLINE_S
    serving.look(one, rolling=True, conditions=[LATE, refused])
    assert serving.runs(GOOD)
    assert serving.status["rollout"]["failed"]["reason"] == "PodsRefused"
    assert "exceeded quota" in serving.status["rollout"]["failed"]["message"]


def test_what_failed_is_not_tried_again_and_the_service_goes_on(serving):
    attempt(serving)
    serving.look(*both(serving, crashed), rolling=True)
    one = of(service(GOOD), 0, replica_set="chat-engine-good")
    for _ in range(3):
        serving.now_s += 3600
        assert "Deployment" not in {found["kind"] for found in serving.look(one).objects}
    assert serving.runs(GOOD)
    assert serving.progressing == ("False", "RolledBack")
    assert [event.reason for event in serving.events] == ["RolledBack"]


def test_an_edit_of_what_is_live_does_not_try_it_again(serving):
    attempt(serving)
    serving.look(*both(serving, crashed), rolling=True)
    serving.edit(merged(BAD, {"slo": {"ttft": "3s"}}))
    serving.look(of(service(GOOD), 0, replica_set="chat-engine-good"))
    assert serving.runs(GOOD)


def test_limits_stay_within_what_the_pods_of_before_can_hold(serving):
    attempt(serving)
    assert serving.status["activeLimits"]["maxNumSeqs"] <= 4096
    serving.look(*both(serving, crashed), rolling=True)
    serving.look(of(service(GOOD), 0, replica_set="chat-engine-good"))
    assert serving.status["activeLimits"]["maxNumSeqs"] <= 16
    assert serving.status["activeLimits"]["maxNumBatchedTokens"] <= 512


def test_after_going_back_over_runtimes_the_engine_that_runs_is_the_one_that_is_steered(serving):
    attempt(serving, {"engine": {"runtime": "vllm", "image": "vllm/vllm-openai:v0.32.0"}})
    assert serving.tuning == ("False", "RequiresRollout")
    serving.look(*both(serving, crashed), rolling=True)
    serving.look(of(service(GOOD), 0, replica_set="chat-engine-good"))
    assert serving.runs(GOOD)
    assert serving.tuning != ("False", "RequiresRollout")


@pytest.mark.parametrize(
    "edit", [OTHER, merged(BAD, {"rollout": {"rollback": False}})], ids=["another spec", "no rollback"]
)
def test_the_user_can_have_it_tried(serving, edit):
    attempt(serving)
    serving.look(*both(serving, crashed), rolling=True)
    serving.edit(edit)
    serving.look(of(service(GOOD), 0, replica_set="chat-engine-good"))
    assert serving.runs(edit)
    assert "failed" not in serving.status["rollout"]


def test_without_rollback_it_stays_and_says_so(serving):
    attempt(serving, merged(BAD, {"rollout": {"rollback": False}}))
    serving.now_s += DEADLINE_S
    serving.look(*both(serving, crashed), rolling=True, conditions=[LATE])
    assert serving.runs(BAD)
    assert serving.progressing == ("False", "RolloutBlocked")


def test_a_first_spec_that_fails_has_nothing_to_go_back_to():
    world = World(BAD)
    world.look()
    world.now_s += DEADLINE_S
    world.look(crashed(world.spec), conditions=[LATE])
    assert world.runs(BAD)
    assert world.progressing == ("False", "RolloutBlocked")


def test_a_template_that_served_is_not_given_up_when_its_pods_crash_later(serving):
    attempt(serving, OTHER)
    serving.look(of(serving.spec, 0, replica_set="chat-engine-next"))
    assert serving.status["rollout"]["good"]["replicaSet"] == "chat-engine-next"
    serving.now_s += DEADLINE_S
    serving.look(crashed(serving.spec, restarts=9), conditions=[LATE])
    assert serving.runs(OTHER)


def test_crashes_of_an_attempt_before_are_not_held_against_this_one(serving):
    attempt(serving)
    attempt(serving, OTHER)
    serving.look(*both(serving, lambda _spec: crashed(service(BAD))), rolling=True)
    assert serving.runs(OTHER)


def test_where_the_kept_template_is_gone_for_a_moment_nothing_is_tried(serving):
    attempt(serving)
    serving.look(*both(serving, crashed), rolling=True)
    serving.look(of(service(GOOD), 0, replica_set="chat-engine-good"), kept=False)
    assert serving.runs(GOOD)


def test_a_deployment_that_was_deleted_begins_anew(serving):
    attempt(serving)
    serving.look(*both(serving, crashed), rolling=True)
    serving.live = None
    serving.look()
    assert serving.runs(BAD)
    assert serving.status["rollout"].keys() == {"template", "since"}
