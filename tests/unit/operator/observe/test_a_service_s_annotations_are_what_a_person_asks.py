"""`headrace.dev/paused` and `headrace.dev/approve` as they stand on the object, whatever stands there."""

import pytest
from operator_builders import NOW_S, SETTINGS, resource, service

from headrace_operator.decide.controller import decide
from headrace_operator.observe.assemble import assemble
from headrace_operator.observe.windows import ServiceWindows


def seen(annotations, children=None):
    raw = resource()
    raw["metadata"]["annotations"] = annotations
    return assemble(
        raw,
        service(),
        children=children or {},
        pods=(),
        foreign_pods=(),
        good_template=None,
        autoscalers=(),
        windows=ServiceWindows(),
        scrape_interval_s=2.0,
        now_s=NOW_S,
    )


@pytest.mark.parametrize(
    ("text", "is_paused"),
    [
        ("true", True),
        ("True", True),
        ("yes", True),
        ("false", False),
        ("False", False),
        ("", True),
        (1, False),
    ],
)
def test_a_pause_is_anything_but_false(text, is_paused):
    observation = seen({"headrace.dev/paused": text})
    assert observation.is_paused is is_paused
    reason = decide(observation, service(), settings=SETTINGS, now_s=NOW_S).status["decision"]["reason"]
    assert (reason == "Paused") is is_paused


@pytest.mark.parametrize("annotations", [None, {}, {"headrace.dev/approve": ""}, {"headrace.dev/approve": 1}])
def test_nothing_is_asked_where_nothing_is_said(annotations):
    assert seen(annotations).approve is None
    assert seen(annotations).is_paused is False


def test_an_approval_is_taken_as_it_stands():
    assert seen({"headrace.dev/approve": "next"}).approve == "next"


def test_whoever_scaled_the_deployment_is_seen():
    scaled = {"manager": "kubectl", "subresource": "scale"}
    live = {"metadata": {"name": "chat-engine", "managedFields": [scaled]}}
    assert seen({}, {"Deployment": live}).scaled_by == "kubectl"
