"""How kopf is set up: a source of events that writes nothing, waits long, and holds no state."""

import inspect
import itertools
import time

import kopf
import pytest

from headrace_operator.ingest.login import Login
from headrace_operator.ingest.registry import build_registry, feeder
from headrace_operator.ingest.settings import EndlessBackoff, configure
from headrace_operator.kube.auth import Credentials
from headrace_operator.kube.kinds import PODS, WATCHED, Key
from headrace_operator.kube.store import Store


@pytest.fixture
def settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    configure(settings, WATCHED)
    return settings


@pytest.fixture
def registry() -> kopf.OperatorRegistry:
    async def read() -> Credentials:
        return Credentials("https://api", None, None, None, "token", insecure=False)

    return build_registry(
        store=Store(WATCHED, wake=lambda _key: None), kinds=WATCHED, login=Login(read, clock=time.monotonic)
    )


def test_nothing_is_posted_scanned_or_agreed_with_peers(settings: kopf.OperatorSettings):
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert settings.peering.standalone
    assert settings.queueing.worker_limit is None


def test_streams_and_requests_are_bounded(settings: kopf.OperatorSettings):
    assert settings.watching.server_timeout < settings.watching.client_timeout < 400
    assert settings.watching.inactivity_timeout == 70
    assert settings.networking.request_timeout == 30
    assert settings.process.ultimate_exiting_timeout < 30


def test_an_outage_is_waited_for_without_end_and_each_time_anew(settings: kopf.OperatorSettings):
    assert isinstance(settings.networking.error_backoffs, EndlessBackoff)
    delays = list(itertools.islice(settings.networking.error_backoffs, 1000))
    assert 0.8 <= delays[0] <= 1.2
    assert all(20 <= delay <= 36 for delay in delays[10:])
    assert next(iter(settings.networking.error_backoffs)) <= 1.2


def test_an_object_is_neither_copied_nor_remembered(settings: kopf.OperatorSettings):
    class Untouchable(dict):
        def __deepcopy__(self, _memo):
            pytest.fail("an event costs a copy of its object")

    body = kopf.Body(Untouchable(metadata={"name": "p"}, spec=Untouchable()))
    diff_base, progress = settings.persistence.diffbase_storage, settings.persistence.progress_storage
    patch = kopf.Patch()
    essence = diff_base.build(body=body, extra_fields=None)
    assert progress.clear(essence=essence) == {}
    diff_base.store(body=body, patch=patch, essence=essence)
    progress.store(key="h", record={}, body=body, patch=patch)
    progress.touch(body=body, patch=patch, value="now")
    progress.purge(key="h", body=body, patch=patch)
    progress.flush()
    assert patch == {}
    assert diff_base.fetch(body=body) is None
    assert progress.fetch(key="h", body=body) is None


def test_only_labelled_children_are_asked_for(settings: kopf.OperatorSettings):
    selectors = {selector.any_name: text for selector, text in settings.watching.label_selectors.items()}
    others = {"inferenceservices", "horizontalpodautoscalers"}
    assert set(selectors) == {kind.plural for kind in WATCHED} - others
    assert set(selectors.values()) == {"headrace.dev/inferenceservice"}


def test_there_are_event_handlers_and_no_others(registry: kopf.OperatorRegistry):
    handlers = registry._watching.get_all_handlers()
    assert len(handlers) == len(WATCHED)
    for others in (registry._changing, registry._spawning, registry._indexing, registry._webhooks):
        assert others.get_all_handlers() == []
    assert all(inspect.iscoroutinefunction(handler.fn) for handler in handlers)


async def test_listed_changed_and_deleted_objects_reach_the_store():
    store = Store(WATCHED, wake=lambda _key: None)
    feed = feeder(store, PODS)
    labels = {"headrace.dev/inferenceservice": "chat"}
    metadata = {"namespace": "default", "name": "p", "uid": "u", "resourceVersion": "1", "labels": labels}
    await feed(event={"type": None, "object": {"metadata": metadata}}, anything_else=1)
    changed = {"metadata": {**metadata, "resourceVersion": "2"}, "status": {"phase": "Running"}}
    await feed(event={"type": "MODIFIED", "object": changed})
    assert [pod["status"]["phase"] for pod in store.pods_of(Key("default", "chat"))] == ["Running"]
    await feed(event={"type": "DELETED", "object": changed})
    assert store.pods_of(Key("default", "chat")) == []
