"""The line of the log, and the table on a terminal, that an engine begins with."""

import hashlib
import json

from headrace_engine.server.banner import facts

ADDRESSES = {"api": "http://127.0.0.1:8000/v1", "admin": "not opened"}


def told(server) -> dict[str, object]:
    return facts(server.config, server.process.service.serving(), ADDRESSES)


def test_model_numbers_cache_limits_and_addresses(server) -> None:
    said = told(server)
    assert said.items() >= ADDRESSES.items()
    assert (said["model"], said["served_as"], said["dtype"]) == ("alphabet", "alphabet", "float32")
    assert (said["kv_cache_tokens"], said["kv_cache_blocks"]) == (512, "128 x 4 tokens")
    assert (said["max_model_len"], said["sessions_at_full_length"]) == (256, 2.0)
    assert "max_num_seqs=8, max_num_batched_tokens=64" in str(said["limits"])
    assert said["traces"] == "not exported"


def test_whether_anybody_is_let_in(start, server, tmp_path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": {hashlib.sha256(b"sk-canary").hexdigest(): "acme"}}))
    closed = told(start(api_keys=keys))
    assert closed["api_keys"] == "asked for"
    assert "none asked for" in str(told(server)["api_keys"])
    assert "canary" not in str(closed)
