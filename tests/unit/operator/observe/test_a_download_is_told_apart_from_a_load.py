"""What becomes of the container that downloads a model: its failures have a word, its success a commit."""

import pytest
from operator_builders import NOW_S, SETTINGS, observation, pod, service

from headrace_operator.decide.controller import decide
from headrace_operator.observe.pods import observe_pod

COMMIT = 40 * "a"


def seen(*, fetch, engine=None):
    """A pod whose containers are in these states."""
    status = {"phase": "Pending", "initContainerStatuses": [{"name": "fetch", **fetch}]}
    if engine is not None:
        status["containerStatuses"] = [{"name": "engine", **engine}]
    metadata = {"name": "chat-0", "uid": "u", "creationTimestamp": "2027-01-15T07:59:00Z"}
    limits = {"resources": {"limits": {"memory": "1Gi"}}}
    spec = {"initContainers": [{"name": "fetch", **limits}], "containers": [{"name": "engine"}]}
    return observe_pod({"metadata": metadata, "spec": spec, "status": status}, None)


def ended(exit_code, message="", reason="Error"):
    return {"terminated": {"exitCode": exit_code, "reason": reason, "message": message}}


WAITS = {"state": {"waiting": {"reason": "PodInitializing"}}, "ready": False}


def test_a_download_under_way_is_no_trouble():
    assert seen(fetch={"state": {"running": {}}, "ready": False}, engine=WAITS).trouble is None


@pytest.mark.parametrize("state", ["state", "lastState"])
def test_a_download_that_failed_says_why_through_all_of_its_retries(state):
    states = {
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        state: ended(1, "the hub has no model 'x'"),
    }
    found = seen(fetch={**states, "ready": False}, engine=WAITS)
    assert (found.trouble, found.trouble_message) == ("DownloadFailed", "the hub has no model 'x'")


def test_a_download_that_the_system_ended_keeps_the_system_s_word():
    found = seen(fetch={"state": ended(137, reason="OOMKilled"), "ready": False}, engine=WAITS)
    assert found.trouble == "OOMKilled"
    assert "1Gi" in found.trouble_message


def test_an_image_that_cannot_be_had_is_no_failed_download():
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    assert seen(fetch={"state": waiting, "ready": False}, engine=WAITS).trouble == "ImagePullBackOff"


def test_after_the_download_the_engine_s_own_trouble_counts():
    done = {"state": ended(0, f"hf://org/name@{COMMIT}", "Completed"), "ready": True}
    found = seen(fetch=done, engine={"state": ended(1, "unknown architecture Foo"), "ready": False})
    assert (found.trouble, found.trouble_message) == ("Error", "unknown architecture Foo")


@pytest.mark.parametrize(
    ("message", "commit"),
    [
        (f"hf://org/name@{COMMIT}\n", COMMIT),
        ("hf://org/name@main", None),
        (f"hf://org/name@{COMMIT} and more", None),
        (f"<script>@{COMMIT}", None),
        ("", None),
    ],
)
def test_a_commit_is_taken_from_nothing_but_a_commit(message, commit):
    assert seen(fetch={"state": ended(0, message, "Completed"), "ready": True}).model_commit == commit


def accepted(*commits):
    spec = service({"model": {"uri": "hf://org/name"}})
    pods = [pod(number, model_commit=commit) for number, commit in enumerate(commits)]
    status = decide(observation(spec, pods=pods), spec, settings=SETTINGS, now_s=NOW_S).status
    [found] = [item for item in status["conditions"] if item["type"] == "Accepted"]
    return status.get("model"), found


def test_a_branch_is_served_and_the_condition_names_the_commit_to_pin():
    model, found = accepted(COMMIT)
    assert model == {"commits": [COMMIT]}
    assert (found["status"], found["reason"]) == ("True", "UnpinnedRevision")
    assert found["message"].endswith(f"set model.revision to {COMMIT}")


def test_pods_that_serve_different_commits_are_told():
    model, found = accepted(COMMIT, 40 * "b")
    assert model == {"commits": [COMMIT, 40 * "b"]}
    assert "has changed" in found["message"]
