"""A key is looked up by its digest: neither time nor an answer tells how near a wrong one was, and no flag or
variable ever holds a secret.
"""

import hashlib
import inspect
import json
import random
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace_cli.main import build
from headrace_engine import cli
from headrace_engine.server.api_keys import ApiKeys
from headrace_engine.server.errors import ApiError

KEY = "sk-" + "k" * 40
NUM_TRIES = 4000


@pytest.fixture
def api_keys(tmp_path: Path) -> ApiKeys:
    path = tmp_path / "keys.json"
    digests = {hashlib.sha256(f"other-{number}".encode()).hexdigest(): "b" for number in range(9_000)}
    path.write_text(json.dumps({"keys": digests | {hashlib.sha256(KEY.encode()).hexdigest(): "acme"}}))
    seconds = iter(range(10**9))
    return ApiKeys(path, clock=lambda: float(next(seconds)))


def refused_ns(api_keys: ApiKeys, key: str) -> int:
    began_ns = time.perf_counter_ns()
    with pytest.raises(ApiError):
        api_keys.tenant(f"Bearer {key}", "1.2.3.4")
    return time.perf_counter_ns() - began_ns


def area_under_curve(first: list[int], second: list[int]) -> float:
    """How often one of `first` is larger than one of `second`: a half if nothing can be told."""
    ranked = sorted([(value, 0) for value in second] + [(value, 1) for value in first])
    ranks = sum(rank for rank, (_, is_first) in enumerate(ranked, start=1) if is_first)
    return (ranks - len(first) * (len(first) + 1) / 2) / (len(first) * len(second))


def test_time_does_not_tell_a_near_key_from_a_far_one(api_keys) -> None:
    """CVE-2025-59425: a comparison that ends at the first difference gave a key away, letter by letter."""
    assert api_keys.tenant(f"Bearer {KEY}", "1.2.3.4") == "acme"
    chance, near_ns, far_ns = random.Random(46), [], []
    for _ in range(NUM_TRIES // 2):
        letter = chance.choice("abcdefghij")
        pairs = [(near_ns, KEY[:-1] + letter), (far_ns, letter + KEY[1:])]
        for times, key in chance.sample(pairs, 2):
            times.append(refused_ns(api_keys, key))
    assert 0.45 <= area_under_curve(near_ns, far_ns) <= 0.55


def test_ten_thousand_keys_cost_what_one_costs(api_keys) -> None:
    began_s = time.process_time()
    for _ in range(1000):
        api_keys.tenant(f"Bearer {KEY}", "1.2.3.4")
    assert (time.process_time() - began_s) / 1000 < 100e-6


@pytest.mark.parametrize("authorization", ["Bearer " + "x" * 10_000_000, "Bearer \xff", "\x00", "Bearer \n"])
def test_whatever_is_sent_as_a_key_is_refused_at_once(api_keys, authorization) -> None:
    began_s = time.process_time()
    with pytest.raises(ApiError) as refused:
        api_keys.tenant(authorization, "1.2.3.4")
    assert refused.value.status == 401
    assert time.process_time() - began_s < 0.1


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
