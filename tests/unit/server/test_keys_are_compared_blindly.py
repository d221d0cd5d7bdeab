"""A key is looked up by its digest alone: no work done depends on how near a wrong one was, and no flag or
variable ever holds a secret.
"""

import hashlib
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace_cli.main import build
from headrace_engine import cli
from headrace_engine.server.api_keys import MAX_KEYS, ApiKeys
from headrace_engine.server.errors import ApiError

KEY = "sk-" + "k" * 40
NEAR, NEARER, FAR = "sk-" + "k" * 20 + "a" * 20, KEY[:-1] + "a", "a" * len(KEY)
ADDRESS = "1.2.3.4"


class Lookups:
    """A mapping that can be asked for one key at a time and does nothing else, and what it was asked for."""

    def __init__(self, tenants: dict[bytes, str]) -> None:
        self._tenants = tenants
        self.asked: list[bytes] = []

    def get(self, digest: bytes) -> str | None:
        self.asked.append(digest)
        return self._tenants.get(digest)


def keys_file(path: Path, num_others: int) -> ApiKeys:
    keys = [KEY, *(f"other-{number}" for number in range(num_others))]
    path.write_text(json.dumps({"keys": {hashlib.sha256(key.encode()).hexdigest(): "acme" for key in keys}}))
    return ApiKeys(path, clock=lambda: 0.0)


@pytest.fixture
def api_keys(tmp_path: Path) -> ApiKeys:
    return keys_file(tmp_path / "keys.json", num_others=9)


@pytest.fixture
def lookups(api_keys: ApiKeys) -> Lookups:
    assert api_keys.tenancy.tenants is not None
    seen = Lookups(api_keys.tenancy.tenants)
    api_keys.tenancy = replace(api_keys.tenancy, tenants=seen)  # type: ignore[arg-type]
    return seen


def instructions(call: Callable[[], object]) -> list[tuple[str, int]]:
    """Every instruction of ours that a call is made of: its function and its place in it."""
    seen: list[tuple[str, int]] = []

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if not frame.f_globals["__name__"].startswith("headrace_engine"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen.append((frame.f_code.co_qualname, frame.f_lasti))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen


def refused(api_keys: ApiKeys, authorization: str) -> int:
    with pytest.raises(ApiError) as error:
        api_keys.tenant(authorization, ADDRESS)
    return error.value.status


def test_a_near_key_takes_the_same_steps_as_a_far_one(api_keys) -> None:
    """CVE-2025-59425: a comparison that ends at the first difference gave a key away, letter by letter."""

    def steps(key: str) -> list[tuple[str, int]]:
        return instructions(lambda: refused(api_keys, f"Bearer {key}"))

    assert api_keys.tenant(f"Bearer {KEY}", ADDRESS) == "acme"
    far = steps(FAR)
    assert "_find" in {function for function, _ in far}
    assert steps(NEAR) == steps(NEARER) == far


def test_all_that_is_done_with_a_key_is_to_look_its_digest_up(api_keys, lookups) -> None:
    """What the file holds are digests too, so there is no key of anybody's to compare it with."""
    assert api_keys.tenant(f"Bearer {KEY}", ADDRESS) == "acme"
    assert [refused(api_keys, f"Bearer {key}") for key in (NEAR, NEARER, FAR)] == [401] * 3
    assert lookups.asked == [hashlib.sha256(key.encode()).digest() for key in (KEY, NEAR, NEARER, FAR)]


def test_ten_thousand_keys_take_the_steps_that_one_takes(tmp_path) -> None:
    one, many = (keys_file(tmp_path / f"{number}.json", number) for number in (0, MAX_KEYS - 1))

    def steps(api_keys: ApiKeys) -> list[tuple[str, int]]:
        return instructions(lambda: api_keys.tenant(f"Bearer {KEY}", ADDRESS))

    assert steps(one) == steps(many)


@pytest.mark.parametrize("authorization", ["Bearer \xff", "\x00", "Bearer \n", "Bearer", ""])
def test_whatever_is_sent_as_a_key_is_refused(api_keys, authorization) -> None:
    assert refused(api_keys, authorization) == 401


def test_what_is_too_long_for_a_key_is_not_even_hashed(api_keys, lookups) -> None:
    assert refused(api_keys, "Bearer " + "x" * 10_000_000) == 401
    assert lookups.asked == []


def test_no_flag_holds_a_secret() -> None:
    """A key stood in another server's start-up log, and in the arguments that every process can read."""
    secrets = {
        name: parameter.annotation
        for name, parameter in inspect.signature(cli.serve).parameters.items()
        if any(word in name for word in ("key", "token", "secret", "password"))
        and "[int" not in str(parameter.annotation)
    }
    assert set(secrets) == {"api_keys", "admin_public_keys", "admin_token_file"}
    assert all("pathlib.Path" in str(annotation) for annotation in secrets.values())
    done = CliRunner().invoke(
        build(), ["serve", "m", "--api-key", KEY], env={"COLUMNS": "200", "NO_COLOR": "1"}
    )
    assert done.exit_code == 2
    assert "--api-keys" in done.output
    assert KEY not in done.output
