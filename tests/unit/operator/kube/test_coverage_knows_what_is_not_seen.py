"""What was listed when, and what is refused where."""

import pytest

from headrace_operator.kube.coverage import Coverage
from headrace_operator.kube.errors import KubeError
from headrace_operator.kube.kinds import PODS, SERVICES

KINDS = (PODS, SERVICES)
REFUSED = KubeError(403, "Forbidden", "no")


def listed(*namespaces: str) -> Coverage:
    coverage = Coverage(KINDS, namespaces)
    for kind in KINDS:
        for scope in coverage.scopes:
            coverage.listed(kind, scope, 40.0)
    return coverage


def test_absent_means_absent_once_every_list_was_answered():
    coverage = Coverage(KINDS, ())
    coverage.listed(PODS, None, 40.0)
    assert not coverage.is_settled
    assert coverage.age_s(100.0) is None
    coverage.listed(SERVICES, None, 50.0)
    assert coverage.is_settled
    assert coverage.age_s(100.0) == 60.0


def test_a_refusal_is_an_answer():
    coverage = Coverage(KINDS, ("a",))
    coverage.listed(PODS, "a", 40.0)
    coverage.refuse_list(SERVICES, "a", REFUSED)
    assert coverage.is_settled


@pytest.mark.parametrize("namespaces", [(), ("a", "b")])
def test_what_was_listed_everywhere_hides_nothing(namespaces):
    coverage = listed(*namespaces)
    assert coverage.blind_in("a") is None
    assert coverage.deaf_in("a") is None
    assert coverage.seen_nowhere_because() is None


def test_a_refusal_in_one_namespace_is_that_namespace_s():
    coverage = listed("a", "b")
    coverage.refuse_list(PODS, "b", REFUSED)
    assert coverage.blind_in("a") is None
    assert coverage.blind_in("b") is REFUSED
    assert coverage.seen_nowhere_because() is None
    coverage.refuse_list(SERVICES, "a", REFUSED)
    assert coverage.seen_nowhere_because() is REFUSED


def test_a_refusal_in_the_whole_cluster_is_every_namespace_s():
    coverage = listed()
    coverage.refuse_list(PODS, None, REFUSED)
    assert coverage.blind_in("a") is REFUSED
    coverage.listed(PODS, None, 50.0)
    assert coverage.blind_in("a") is None


def test_what_is_refused_does_not_age():
    coverage = listed("a", "b")
    for kind in KINDS:
        coverage.refuse_list(kind, "b", REFUSED)
        coverage.listed(kind, "a", 90.0)
    assert coverage.age_s(100.0) == 10.0


def test_a_watch_that_is_refused_blinds_nobody():
    coverage = listed("a", "b")
    coverage.watched(PODS, "b", REFUSED)
    assert coverage.deaf_in("b") is REFUSED
    assert coverage.deaf_in("a") is None
    assert coverage.blind_in("b") is None
    coverage.watched(PODS, "b", None)
    assert coverage.deaf_in("b") is None
