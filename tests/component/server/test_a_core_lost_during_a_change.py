"""The core is lost while somebody waits for it to take over new limits or new terms: that is told like any
other loss, 503 with a time to come back, and not as a fault of the request.
"""

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.component.server.test_tenants_are_told_by_their_keys import ask, write_keys

from headrace_engine.server.admin_credentials import AdminCredentials

TOKEN = secrets.token_urlsafe(32)


def patch_limits(server):
    return server.http.patch(
        server.admin_url + "/v1/admin/limits",
        json={"max_num_seqs": 3},
        headers={"authorization": f"Bearer {TOKEN}", "if-match": "*"},
    )


def change_keys(server):
    write_keys(server.config.api_keys, {"sk-a": "acme"}, {"acme": {"weight": 2}})
    return ask(server, "sk-a")


@pytest.mark.parametrize("change", [patch_limits, change_keys])
def test_whoever_waits_for_a_change_is_told_to_come_back(start, tmp_path, change) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    keys = write_keys(tmp_path / "keys.json", {"sk-a": "acme"})
    server = start(api_keys=keys, admin=AdminCredentials(None, token, None))
    engine = server.process.service.serving().engine
    server.model.may_step.clear()
    with ThreadPoolExecutor(2) as clients:
        computing = clients.submit(ask, server, "sk-a")
        server.eventually(lambda: engine.num_unanswered)
        waiting = clients.submit(change, server)
        server.eventually(lambda: engine._link._changes)
        server.on_loop(engine._link._transport.abort)
        told = waiting.result()
        assert computing.result().status_code == 500
    assert told.status_code == 503
    assert told.headers["retry-after"] == "5"
    assert told.json()["error"]["code"] == "restarting"
    server.model.may_step.set()
    assert server.ended() == 1
