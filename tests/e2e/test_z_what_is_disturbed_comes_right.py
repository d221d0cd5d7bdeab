"""Pods and objects deleted in the middle of it: the end state is the right one, every time."""

import contextlib
import json

import httpx
import pytest

from headrace_local.story.install import SYSTEM_NAMESPACE, remove_service
from headrace_local.story.serve import serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

CHILDREN = ("deployment/{}-engine", "service/{}", "configmap/{}-engine", "poddisruptionbudget/{}-engine")


@pytest.fixture
def service(stage, facts):
    """The service Ready, whatever the test before did to it."""
    if stage.view() is None:
        serve(stage)
    await_ready(stage)
    return stage


def await_ready(stage, *, but_not=()):
    """Waits until one pod, none of those named, is ready and the service says so."""

    def ready():
        view, names = stage.view(), pod_names(stage)
        settled = view is not None and view.is_true("Ready") and view.ready_replicas == 1 and len(names) == 1
        return True if settled and not names & set(but_not) else None

    look = stage.look("describe", "infs", stage.name)
    stage.until(
        "the service Ready again",
        ready,
        timeout_s=180,
        look=look,
        seen=lambda: f"{pod_names(stage)} {stage.view()}",
    )


def pod_names(stage, namespace=None, selector=None):
    pods = stage.api.pods(namespace or stage.namespace, selector or stage.selector)
    return {pod["metadata"]["name"] for pod in pods}


def exists(stage, child):
    found = stage.tools.kubectl(
        "-n", stage.namespace, "get", child.format(stage.name), "--ignore-not-found", "-o", "name"
    )
    return bool(found.strip())


def await_answer(stage):
    """A service that is ready answers once its new address has come to every proxy."""
    look = stage.look("get", "endpointslices")
    stage.until("an answer", lambda: answers(stage) or None, timeout_s=60, look=look, seen=str)


def answers(stage):
    with (
        stage.venue.address(stage.api, stage.namespace, stage.name) as base_url,
        contextlib.suppress(httpx.HTTPError),
    ):
        return httpx.get(f"{base_url}/models", timeout=20).is_success
    return False


def test_a_deleted_engine_pod_is_replaced(service):
    (gone,) = pod_names(service)
    service.tools.kubectl("-n", service.namespace, "delete", "pod", gone, "--wait=false")
    await_ready(service, but_not={gone})
    await_answer(service)


def test_an_engine_pod_killed_without_grace_is_replaced(service):
    (gone,) = pod_names(service)
    service.tools.kubectl("-n", service.namespace, "delete", "pod", gone, "--grace-period=0", "--force")
    await_ready(service, but_not={gone})
    await_answer(service)


def test_the_service_serves_while_the_operator_is_gone_and_is_steered_again_after(service):
    selector = "app.kubernetes.io/name=headrace-operator"
    before = pod_names(service, SYSTEM_NAMESPACE, selector)
    assert before
    service.tools.kubectl(
        "-n", SYSTEM_NAMESPACE, "delete", "pods", "-l", selector, "--grace-period=0", "--force"
    )
    budget = CHILDREN[3].format(service.name)
    service.tools.kubectl("-n", service.namespace, "delete", budget)
    await_answer(service)
    service.until(
        "the deleted PodDisruptionBudget back",
        lambda: exists(service, CHILDREN[3]) or None,
        timeout_s=120,
        look=f"kubectl -n {SYSTEM_NAMESPACE} logs -l {selector}",
        seen=lambda: f"operator pods {pod_names(service, SYSTEM_NAMESPACE, selector)}",
    )
    assert not before & pod_names(service, SYSTEM_NAMESPACE, selector)
    await_ready(service)


def test_deleting_the_service_removes_every_child_and_applying_it_again_brings_it_back(service):
    remove_service(service)
    service.until(
        "every child gone",
        lambda: None if any(exists(service, child) for child in CHILDREN) else True,
        timeout_s=60,
        look=service.look("get", "all"),
        seen=lambda: str([child for child in CHILDREN if exists(service, child)]),
    )
    serve(service)
    await_answer(service)


def test_a_service_deleted_before_it_is_ready_leaves_nothing(service):
    remove_service(service)
    service.tools.kubectl(
        "-n", service.namespace, "apply", "-f", "-", stdin=json.dumps(service.venue.manifest)
    )
    service.until(
        "its Deployment made",
        lambda: exists(service, CHILDREN[0]) or None,
        timeout_s=30,
        look=service.look("get", "all"),
        seen=str,
    )
    remove_service(service)
    service.until(
        "every child gone",
        lambda: None if any(exists(service, child) for child in CHILDREN) else True,
        timeout_s=60,
        look=service.look("get", "all"),
        seen=lambda: str([child for child in CHILDREN if exists(service, child)]),
    )
