"""Models of a hub and tenants' keys on real pods, under Pod Security and the operator's own rights."""

import hashlib
import json
import urllib.error
import urllib.request

import pytest
from eventually import eventually
from model_hub import COMMIT, FakeHub

from headrace_operator.api.parsing import parse
from headrace_operator.runtimes.terms import contract

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.timeout(900)]

START_S, SYNC_S = 240.0, 120.0
KEY = "sk-of-acme"
TENANTS = {
    "keys": {hashlib.sha256(KEY.encode()).hexdigest(): "acme"},
    "items": [
        {
            "name": "acme",
            "weight": 3,
            "priority": 5,
            "minShare": "0.1",
            "slo": {"ttft": "2s", "queueDeadline": "30s"},
            "limits": {"maxNumSeqs": 8, "requestsPerMinute": 600, "tokensPerMinute": 100000},
        }
    ],
}


@pytest.fixture(scope="module")
def hub(installed, tiny_model_dir):
    """Serves the tiny model as `org/name`, where pods reach it."""
    files = {file.name: file.read_bytes() for file in tiny_model_dir.iterdir() if file.is_file()}
    with FakeHub(files).running(str(installed.addresses.host)) as running:
        yield running


def of_hub(real_service, hub, name, **model):
    found = real_service(name, model={"cache": {"size": "1Gi"}, **model})
    found["spec"]["engine"]["env"] = [{"name": "HF_ENDPOINT", "value": hub.url}]
    return found


@pytest.fixture(scope="module")
def services(namespace, operator, real_service, hub):
    """One whose model is downloaded, one whose model nobody has."""
    namespace.apply(
        of_hub(real_service, hub, "chat", uri="hf://org/name"),
        of_hub(real_service, hub, "nobody", uri="hf://org/other", revision=COMMIT),
    )
    return namespace


def is_true(namespace, name, kind):
    found = namespace.condition(name, kind)
    return found if found and found["status"] == "True" else None


@pytest.fixture(scope="module")
def serving(services):
    eventually(lambda: is_true(services, "chat", "Ready"), within_s=START_S)
    return services


def pod_of(namespace, name="chat"):
    [pod] = namespace.find("pods", f"headrace.dev/inferenceservice={name}")
    return pod


def ask(namespace, key=None):
    """The status of one completion, asked by the Service's address."""
    address = namespace.get("service", "chat")["spec"]["clusterIP"]
    body = json.dumps({"model": "chat", "prompt": "a", "max_tokens": 1}).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    request = urllib.request.Request(f"http://{address}:8000/v1/completions", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def metric(namespace, name, *, label=""):
    """Of the pod, by its own word."""
    address = namespace.get("service", "chat")["spec"]["clusterIP"]
    with urllib.request.urlopen(f"http://{address}:8000/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name}{{") and label in line)


def holds_its_terms(namespace):
    """Whether the pod admits requests as the service declares it."""
    terms = contract(parse(namespace.get("infs", "chat")).tenants)
    goes_by_classes = metric(namespace, "headrace_scheduling_policy", label='policy="slo"') == 1
    return metric(namespace, "headrace_tenants_digest") == terms.digest and goes_by_classes


def test_a_downloaded_model_is_served(serving):
    assert ask(serving) == 200


def test_the_download_is_done_before_the_engine_starts_and_leaves_it_no_way_to_the_hub(serving, hub):
    pod = pod_of(serving)
    [fetch] = pod["status"]["initContainerStatuses"]
    assert fetch["state"]["terminated"]["exitCode"] == 0
    [engine] = pod["spec"]["containers"]
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in engine["env"]
    assert "model.safetensors" in hub.downloaded()


def test_the_status_says_which_commit_a_branch_came_to(serving):
    eventually(lambda: serving.get("infs", "chat")["status"].get("model") == {"commits": [COMMIT]})


def test_a_branch_is_served_with_a_warning(serving):
    accepted = serving.condition("chat", "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("True", "UnpinnedRevision")
    assert f"model.revision to {COMMIT}" in accepted["message"]
    warnings = [event["reason"] for event in serving.events("chat") if event["type"] == "Warning"]
    assert warnings.count("UnpinnedRevision") == 1


def test_a_model_that_nobody_has_is_told_in_the_hub_s_words(services):
    def told():
        found = services.condition("nobody", "ModelLoaded")
        return found if found and found["reason"] == "DownloadFailed" else None

    found = eventually(told, within_s=START_S)
    assert "org/other" in found["message"]
    assert services.condition("nobody", "Ready")["reason"] == "DownloadFailed"


def test_the_pod_has_no_token_and_its_account_no_right(serving):
    pod = pod_of(serving)
    assert pod["spec"]["serviceAccountName"] == "chat-engine"
    assert not any("projected" in volume for volume in pod["spec"]["volumes"])
    account = f"system:serviceaccount:{serving.name}:chat-engine"
    granted = serving.kubectl("auth", "can-i", "--list", "--as", account, "--no-headers")
    resources = {line.split()[0] for line in granted.splitlines() if line and not line.startswith((" ", "["))}
    assert resources <= {"selfsubjectreviews.authentication.k8s.io"} | {
        f"selfsubject{kind}reviews.authorization.k8s.io" for kind in ("access", "rules")
    }


def test_keys_come_and_go_and_no_pod_is_replaced(serving):
    before = pod_of(serving)
    serving.patch("infs", "chat", {"spec": {"tenants": TENANTS}})
    eventually(lambda: ask(serving) == 401, within_s=SYNC_S)
    assert ask(serving, KEY) == 200
    eventually(lambda: holds_its_terms(serving))
    serving.patch("infs", "chat", {"spec": {"tenants": None}})
    eventually(lambda: ask(serving) == 200, within_s=SYNC_S)
    after = pod_of(serving)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
