"""Terms of tenants move by a call to each pod that holds others; a pod is never replaced for them."""

import json
from dataclasses import asdict, replace
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st
from operator_builders import NOW_S, SETTINGS, observation, pod, service, window

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.policies import PolicyName
from headrace_operator.api.spec import Limits
from headrace_operator.decide.controller import decide
from headrace_operator.decide.observation import Scrape
from headrace_operator.runtimes.terms import change_of_terms, contract

TENANTS = {"keys": {64 * "a": "acme"}, "items": [{"name": "acme", "weight": 3}]}
SHARED = service({"tenants": TENANTS})
WANTED = contract(SHARED.tenants)


def calls(*digests, spec=SHARED, policy=PolicyName.FAIR):
    told = {"draining": False, "policy": policy}
    pods = [
        pod(number, scrape=Scrape(NOW_S, Limits(16, 512), 1, tenants_digest=digest, **told))
        for number, digest in enumerate(digests)
    ]
    facts = observation(spec, pods=pods, recent=window(), previous={"desiredReplicas": len(pods)})
    return decide(facts, spec, settings=SETTINGS, now_s=NOW_S).set_limits


def test_a_pod_that_holds_other_terms_is_told_and_keeps_its_limits():
    [call] = calls(WANTED.digest, Contract().digest)
    assert call.pod_name == pod(1).name
    assert (call.tenants, call.limits) == (WANTED, Limits(16, 512))


def test_pods_that_hold_them_already_are_left_alone():
    assert calls(WANTED.digest, WANTED.digest) == ()


def test_an_engine_that_tells_nothing_of_tenants_is_not_told_of_them():
    assert calls(None) == ()


def test_tenants_that_are_taken_out_of_the_spec_are_taken_from_the_pods():
    [call] = calls(WANTED.digest, spec=service())
    assert call.tenants == Contract()


RATED = {"keys": {64 * "a": "acme"}, "items": [{"name": "acme", "limits": {"requestsPerMinute": 60}}]}


def test_a_rate_is_divided_among_the_pods_that_are_ready():
    rated = service({"tenants": RATED})
    alone, of_two = (contract(rated.tenants, ready_replicas=number) for number in (1, 2))
    assert [call.tenants.replicas for call in calls(alone.digest, spec=rated)] == []
    first, second = calls(alone.digest, alone.digest, spec=rated)
    assert first.tenants == second.tenants == of_two
    assert of_two.part_of(60) == 30
    assert calls(of_two.digest, of_two.digest, spec=rated) == ()


def test_pods_that_start_read_the_part_of_those_that_are_ready():
    rated = service({"tenants": RATED})
    pods = [pod(number, scrape=Scrape(NOW_S, Limits(16, 512), 1, False)) for number in range(3)]
    facts = observation(rated, pods=pods, recent=window(), previous={"desiredReplicas": 3})
    objects = decide(facts, rated, settings=SETTINGS, now_s=NOW_S).objects
    [config_map] = [manifest for manifest in objects if manifest["kind"] == "ConfigMap"]
    assert json.loads(config_map["data"]["api-keys.json"])["tenants"]["replicas"] == 3


def test_without_rates_pods_that_come_and_go_change_nothing():
    assert contract(SHARED.tenants, ready_replicas=5) == WANTED


TIMES = service({"tenants": {**TENANTS, "items": [{"name": "acme", "slo": {"ttft": "1s"}}]}})


def test_where_a_tenant_has_a_time_of_its_own_engines_go_by_it():
    digest = contract(TIMES.tenants).digest
    assert [call.policy for call in calls(digest, spec=TIMES)] == [PolicyName.SLO]


CLASSES = service({"tenants": {**TENANTS, "items": [{"name": "batch", "priority": 10}]}})
OWN_POLICY = service({"tenants": TENANTS, "engine": {"args": ["--scheduling-policy=deadline"]}})


def test_where_a_tenant_has_a_class_engines_that_run_go_by_classes():
    digest = contract(CLASSES.tenants).digest
    [call] = calls(digest, spec=CLASSES)
    assert call.policy is PolicyName.SLO
    assert calls(digest, spec=CLASSES, policy=PolicyName.SLO) == ()
    [back] = calls(WANTED.digest, policy=PolicyName.SLO)
    assert back.policy is PolicyName.FAIR


def test_a_policy_that_the_service_names_itself_is_left_alone():
    assert calls(WANTED.digest, spec=OWN_POLICY, policy=PolicyName.SLO) == ()


terms = st.builds(Terms, st.sampled_from([1.0, 2.0]), st.none() | st.integers(1, 4))
contracts = st.builds(Contract, st.dictionaries(st.sampled_from("abc"), terms), terms, st.integers(1, 3))


@given(contracts, contracts)
def test_whatever_a_pod_held_it_holds_what_is_wanted_afterwards(held, wanted):
    change = change_of_terms(asdict(held), wanted)
    assert held.changed(change) == wanted
    assert not change["items"].keys() & {
        name for name in held.items if wanted.items.get(name) == held.items[name]
    }


@given(
    st.none() | st.integers() | st.lists(st.integers()) | st.dictionaries(st.text(max_size=7), st.integers()),
    contracts,
)
def test_whatever_a_pod_says_that_it_holds_makes_no_error(said, wanted):
    assert Contract().changed(change_of_terms(said, wanted)) == wanted


def test_what_nobody_sets_is_not_in_what_tells_terms_apart():
    """So that an engine which does not know it is not called for ever."""
    text = json.dumps([{"=acme": {"weight": 3.0}, "default": {}}, 1], sort_keys=True)
    assert Contract({"acme": Terms(weight=3)}).digest == int.from_bytes(sha256(text.encode()).digest()[:6])


OLD_TERMS = {"weight", "max_num_seqs"}


@given(contracts, contracts)
def test_an_engine_that_does_not_know_a_term_that_nobody_sets_takes_the_others(held, wanted):
    """As after an upgrade of the operator alone, or where a rollout goes back to engines of before."""
    told = {
        "default": {name: asdict(held.default)[name] for name in OLD_TERMS},
        "items": {name: {term: asdict(own)[term] for term in OLD_TERMS} for name, own in held.items.items()},
    }
    alone = replace(wanted, replicas=1)
    change = change_of_terms(told, alone)
    assert change.keys() == {"default", "items"}
    said = [change["default"], *(terms for terms in change["items"].values() if terms is not None)]
    assert all(terms.keys() <= OLD_TERMS for terms in said)
    assert replace(held, replicas=1).changed(change) == alone
