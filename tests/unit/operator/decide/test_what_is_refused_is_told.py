"""What the API server refuses is a condition until it is written, whoever leads meanwhile."""

from dataclasses import replace

from operator_builders import NOW_S, SETTINGS, observation, pod, service

from headrace_operator.api.status_reading import read
from headrace_operator.decide.controller import decide
from headrace_operator.decide.observation import Refused
from headrace_operator.decide.refusal import refuse_access

REFUSED = Refused("Forbidden", 'User "operator" cannot patch resource "deployments"')


def told(facts, *, now_s=NOW_S):
    return decide(facts, service(), settings=SETTINGS, now_s=now_s)


def conditions(status):
    return {found["type"]: found for found in status["conditions"]}


def test_a_refused_write_is_why_the_service_is_not_accepted_and_not_ready():
    facts = observation(service(), pods=(), children={})
    plan = told(replace(facts, refused=REFUSED))
    found = conditions(plan.status)
    for kind in ("Accepted", "Ready"):
        assert (found[kind]["status"], found[kind]["reason"]) == ("False", "Forbidden")
        assert "cannot patch" in found[kind]["message"]
    assert [(event.type, event.reason) for event in plan.events] == [
        ("Warning", "Forbidden"),
        ("Warning", "Forbidden"),
    ]


def test_pods_that_serve_are_ready_whatever_was_refused():
    facts = observation(service(), pods=(pod(),))
    found = conditions(told(replace(facts, refused=REFUSED)).status)
    assert (found["Accepted"]["status"], found["Ready"]["status"]) == ("False", "True")


def test_it_is_not_unsaid_before_everything_is_written():
    facts = observation(service(), pods=(), children={})
    first = told(replace(facts, refused=REFUSED))
    successor = told(replace(facts, previous=read(first.status)), now_s=NOW_S + 60)
    assert successor.status is None
    assert successor.objects, "it is tried again"
    live = {manifest["kind"]: manifest for manifest in successor.objects}
    written = told(replace(facts, previous=read(first.status), children=live), now_s=NOW_S + 120)
    assert conditions(written.status)["Accepted"]["status"] == "True"


def test_a_correction_that_was_refused_is_not_told_as_done():
    made = {manifest["kind"]: manifest for manifest in told(observation(service(), children={})).objects}
    edited = {**made["Service"], "spec": {**made["Service"]["spec"], "type": "NodePort"}}
    facts = observation(service(), children={**made, "Service": edited}, previous={"desiredReplicas": 1})
    assert "DriftCorrected" in [event.reason for event in told(facts).events]
    assert "DriftCorrected" not in [event.reason for event in told(replace(facts, refused=REFUSED)).events]


def test_where_something_cannot_be_read_all_else_stays_said():
    before = told(observation(service(), pods=(pod(),))).status
    plan = refuse_access(read(before), 2, REFUSED, now_s=NOW_S + 5)
    found = conditions(plan.status)
    assert found["Accepted"]["reason"] == "Forbidden"
    assert found["Ready"] == {**conditions(before)["Ready"], "observedGeneration": 2}
    assert plan.status["activeLimits"] == before["activeLimits"]
    assert refuse_access(read(plan.status), 2, REFUSED, now_s=NOW_S + 65).is_empty


def test_of_a_new_service_nothing_is_known_then():
    found = conditions(refuse_access(read(None), 1, REFUSED, now_s=NOW_S).status)
    assert found["Ready"]["status"] == "Unknown"
