"""An operator that is told which namespaces to watch."""

import time

import pytest
from eventually import eventually
from least_service import service
from own_namespace import Namespace

pytestmark = pytest.mark.cluster


def test_a_namespace_that_is_not_watched_is_neither_read_nor_written(namespace, start_operator):
    start_operator()
    elsewhere = Namespace.create(namespace.objects)
    try:
        elsewhere.apply(service())
        namespace.apply(service())
        eventually(lambda: namespace.get("deployment", "chat-engine"))
        time.sleep(1)
        assert elsewhere.get("deployment", "chat-engine") is None
        assert "status" not in elsewhere.get("infs", "chat")
    finally:
        elsewhere.leave()
