"""One object that nobody can read must not stop the others: parsing answers, whatever stands there."""

import json

from hypothesis import given
from hypothesis import strategies as st
from operator_builders import resource
from operator_strategies import json_values, spec_documents, texts

from headrace_operator.api.parsing import parse
from headrace_operator.api.spec import Invalid, ServiceSpec
from headrace_operator.api.status_reading import read


@given(json_values)
def test_any_json_in_place_of_the_object(raw):
    assert isinstance(parse(raw), Invalid)


@given(json_values, json_values)
def test_any_json_in_place_of_metadata_and_spec(metadata, spec):
    assert isinstance(parse({"metadata": metadata, "spec": spec}), Invalid)


@given(spec_documents(), st.data())
def test_any_json_in_place_of_any_field(spec, data):
    place = spec
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(json_values)
    parsed = parse({**resource(), "spec": spec})
    assert isinstance(parsed, ServiceSpec | Invalid)
    if isinstance(parsed, Invalid):
        assert parsed.message
        json.dumps(parsed.message).encode()


@given(json_values)
def test_any_json_in_place_of_the_status(raw):
    read(raw)


@given(
    st.dictionaries(
        st.sampled_from(["activeLimits", "pressure", "decision", "history", "conditions", "slo"]),
        json_values | st.lists(st.dictionaries(texts, json_values, max_size=4), max_size=3),
    )
)
def test_any_json_in_place_of_a_part_of_the_status(raw):
    read(raw)


@given(spec_documents())
def test_every_spec_of_the_strategy_is_accepted(spec):
    assert isinstance(parse({**resource(), "spec": spec}), ServiceSpec)


@given(spec_documents(), st.dictionaries(texts, texts, max_size=4), st.dictionaries(texts, texts, max_size=4))
def test_no_annotation_and_no_label_of_a_service_changes_what_it_is(spec, annotations, labels):
    annotations |= {"headrace.dev/paused": "true", "headrace.dev/image": "evil:1"}
    marked = {**resource()["metadata"], "annotations": annotations, "labels": labels}
    assert parse({**resource(), "spec": spec}) == parse({"metadata": marked, "spec": spec})
