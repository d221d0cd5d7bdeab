"""The story of `local/demo`, asserted: the same chapters, played on a cluster of the tests' own."""

import json

import pytest

from headrace_bench.record import Outcome
from headrace_local.story.stage import CHECKOUT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_the_conditions_lead_from_accepted_to_ready(facts):
    told = [line.partition(" ")[0] for line in facts.served.told]
    assert told.index("Accepted=True") < told.index("Ready=True")
    assert told.index("ModelLoaded=False") < told.index("ModelLoaded=True") <= told.index("Ready=True")
    assert facts.served.view.ready_replicas == 1


def test_the_official_client_streams_an_answer_through_the_service_address(facts):
    assert facts.chatted.text.strip()
    assert facts.chatted.pieces > 5
    assert facts.chatted.finish_reason in {"stop", "length"}
    assert facts.chatted.base_url.startswith("http://198.19.")


def test_the_limits_moved_under_load_and_the_status_says_why(facts):
    changes = facts.burst.limit_changes
    assert changes
    for change in changes:
        assert change.reason not in {None, "WithinTarget"}
        assert any(character.isdigit() for character in change.message), "a reason without its numbers"
        assert change.raw["before"] != change.raw["after"]


def test_a_second_replica_came_and_the_status_says_why(facts):
    (scale_up,) = facts.burst.scale_ups
    assert (scale_up.raw["before"]["replicas"], scale_up.raw["after"]["replicas"]) == (1, 2)
    assert scale_up.reason
    assert scale_up.message
    assert facts.burst.ready_replicas == 2


def test_the_load_over_one_replica_was_drained_away(facts):
    (scale_down,) = facts.calmed.scale_downs
    assert (scale_down.raw["before"]["replicas"], scale_down.raw["after"]["replicas"]) == (2, 1)
    assert facts.calmed.replicas == 1


def test_no_stream_broke_and_no_request_failed(facts):
    records = [*facts.burst.records, *facts.calmed.records]
    assert len(records) > 30
    bad = [record.detail for record in records if record.outcome in {Outcome.BROKEN, Outcome.FAILED}]
    assert bad == []
    assert any(record.outcome is Outcome.OK for record in facts.calmed.records)


def test_the_service_answers_by_its_name_inside_the_cluster(stage, facts):
    """From a pod, through the cluster's DNS: the name in `.status.url`."""
    document = stage.api.get(
        f"/apis/headrace.dev/v1alpha1/namespaces/{stage.namespace}/inferenceservices/{stage.name}"
    )
    url = document["status"]["url"]
    assert ".svc" in url
    read = f"import urllib.request; print(urllib.request.urlopen('{url}/models', timeout=10).read().decode())"
    engine = stage.venue.manifest["spec"]["engine"]
    spec = {
        "restartPolicy": "Never",
        "runtimeClassName": engine["runtimeClassName"],
        "automountServiceAccountToken": False,
        "containers": [{"name": "asks", "image": engine["image"], "command": ["python", "-c", read]}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks"}, "spec": spec}
    where = ("-n", stage.namespace)
    stage.tools.kubectl(*where, "apply", "-f", "-", stdin=json.dumps(pod))
    try:
        stage.tools.kubectl(
            *where,
            "wait",
            "--for=jsonpath={.status.phase}=Succeeded",
            "pod/asks",
            "--timeout=60s",
            timeout_s=70,
        )
        models = json.loads(stage.tools.kubectl(*where, "logs", "asks"))
    finally:
        stage.tools.kubectl(*where, "delete", "pod", "asks", "--wait=false")
    assert models["data"][0]["id"] == facts.chatted.model


def test_get_answers_what_it_is_doing(stage, facts):
    heading, row = stage.tools.kubectl("-n", stage.namespace, "get", "infs", stage.name).splitlines()
    assert heading.split()[0] == "NAME"
    assert row.split()[0] == stage.name
    assert {"READY", "REASON", "AGE"} <= set(heading.split())


def test_explain_reads_well(stage, facts):
    explained = stage.tools.kubectl("explain", "infs.spec.slo")
    assert "ttft" in explained
    assert "Most time from a request's arrival to its first token" in " ".join(explained.split())


def test_the_readme_shows_what_the_story_applies():
    assert "examples/chat.yaml" in (CHECKOUT / "README.md").read_text()
