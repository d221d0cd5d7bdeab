"""One tenant learns nothing of another's prompts: not from what is cached, not from time, not from an answer.

The model here is the strictest reader there is: what it says next follows from every slot of its cache that
belongs to the request. One foreign or stale slot, and the answer is another.
"""

import dataclasses
import hashlib
import json
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path

import pytest

from headrace_engine.core.plan import Outcome, Plan, Row

PREFIX_TOKENS = 512
NUM_PAIRS = 200 if os.environ.get("HEADRACE_TIMING_TESTS") else 8
NUM_SESSIONS = 32
BODY = {"model": "alphabet", "max_tokens": 1}


class Witness:
    """Writes each token into its slot, and says next a digest of all that stands before."""

    def __init__(self, model) -> None:
        self._model = model
        self.preempted: list[str] = []

    def run(self, plan: Plan) -> Outcome:
        self.preempted += plan.preempted
        outcome = self._model.run(plan)
        return Outcome(
            {row.request_id: [self._next(row)] for row in plan.rows if row.sampled_rows}, outcome.duration_s
        )

    def _next(self, row: Row) -> int:
        end = row.start + len(row.token_ids)
        context = bytes(self._model.cache[self._model._slot(row, position)] % 256 for position in range(end))
        return ord("a") + hashlib.blake2b(context, digest_size=1).digest()[0] % 25


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    digests = {hashlib.sha256(f"sk-{name}".encode()).hexdigest(): name for name in ("acme", "bolt")}
    path.write_text(json.dumps({"keys": digests}))
    return path


def ask(server, tenant: str, prompt: str, **change):
    headers = {"authorization": f"Bearer sk-{tenant}"}
    answer = server.post("/v1/completions", BODY | {"prompt": prompt} | change, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def cached(answer) -> int:
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def secret(number: int) -> str:
    """Its first block is nobody else's."""
    return f"{number:04}" + "".join(random.Random(number).choices("abcdefgh", k=PREFIX_TOKENS - 4))


unseen = map(secret, count())
"""Beginnings that no test has used yet."""


@pytest.fixture(scope="module")
def server(run_server, keys):
    return run_server(api_keys=keys, max_model_len=1024, num_blocks=2048, step_s=0.0005)


class TestWhatIsCached:
    @pytest.mark.parametrize(
        "change",
        [{}, {"user": "acme"}, {"prompt_cache_key": "acme"}, {"safety_identifier": "acme"}],
        ids=lambda change: next(iter(change), "as it is"),
    )
    def test_a_prefix_is_found_by_its_own_tenant_alone(self, server, change) -> None:
        """CVE-2025-46570: a shared prefix answered sooner, and prompts were read out of that, token by token.
        A salt that the client chose let it choose the victim's.
        """
        for prompt in islice(unseen, NUM_PAIRS):
            assert cached(ask(server, "acme", prompt + "x")) == 0
            assert cached(ask(server, "bolt", prompt + "y", **change)) == 0
            assert cached(ask(server, "acme", prompt + "z")) == PREFIX_TOKENS

    def test_a_salt_of_the_clients_choice_can_only_narrow(self, server) -> None:
        prompt = next(unseen)
        assert cached(ask(server, "acme", prompt)) == 0
        assert cached(ask(server, "bolt", prompt, cache_salt="acme")) == 0
        assert cached(ask(server, "acme", prompt, cache_salt="mine")) == 0
        assert cached(ask(server, "bolt", prompt, cache_salt="mine")) == 0
        assert cached(ask(server, "acme", prompt, cache_salt="mine")) == PREFIX_TOKENS - 4
        assert cached(ask(server, "acme", prompt)) == PREFIX_TOKENS - 4

    def test_a_guess_at_anothers_prompt_takes_as_many_steps_as_any_other(self, server) -> None:
        def steps(tenant: str, prompt: str) -> int:
            before = len(server.model.plans)
            ask(server, tenant, prompt)
            return len(server.model.plans) - before

        for prompt in islice(unseen, NUM_PAIRS):
            ask(server, "acme", prompt)
            right, wrong = steps("bolt", prompt), steps("bolt", next(unseen))
            assert right == wrong > steps("acme", prompt)

    @pytest.mark.skipif(
        "HEADRACE_TIMING_TESTS" not in os.environ, reason="measures time: for a quiet machine"
    )
    def test_a_guess_at_anothers_prompt_takes_as_long_as_any_other(self, server) -> None:
        def seconds(prompt: str) -> float:
            began_s = time.perf_counter()
            ask(server, "bolt", prompt)
            return time.perf_counter() - began_s

        right, wrong = [], []
        for prompt in islice(unseen, NUM_PAIRS):
            ask(server, "acme", prompt)
            right.append(seconds(prompt))
            wrong.append(seconds(next(unseen)))
        told = sum((a < b) + (a == b) / 2 for a in right for b in wrong) / len(right) / len(wrong)
        assert 0.45 <= told <= 0.55


def test_every_session_reads_its_own_answer_whatever_happens_to_the_others(start, keys) -> None:
    """Answers from other users' blocks were served by several engines: after a preemption, an abort, a hit.
    Here a memory that is too small for all makes every one of those happen.
    """
    witnesses: list[Witness] = []

    def watched(loaded):
        witnesses.append(Witness(loaded.runner))
        return dataclasses.replace(loaded, runner=witnesses[-1])

    server = start(
        load=watched, api_keys=keys, num_blocks=40, max_num_seqs=8, max_model_len=160, step_s=0.001
    )
    shared = "the same beginning of all of them "

    def session(number: int) -> str:
        chance = random.Random(number)
        prompt = shared * (number % 3) + f"canary {number} " + "".join(chance.choices("abc", k=number))
        body = BODY | {"prompt": prompt, "max_tokens": 20 if number % 5 else 50}
        body |= {"ignore_eos": True, "stream": True}
        headers = {"authorization": f"Bearer sk-{('acme', 'bolt')[number % 2]}"}
        text = ""
        with server.http.stream("POST", server.url + "/v1/completions", json=body, headers=headers) as stream:
            for line in stream.iter_lines():
                if line.startswith("data: {"):
                    text += json.loads(line[6:])["choices"][0]["text"]
                if number % 5 == 0 and len(text) > 5 and leaves:
                    break
        return text

    leaves = False
    alone = [session(number) for number in range(NUM_SESSIONS)]
    assert len(set(alone)) == NUM_SESSIONS
    leaves = True
    with ThreadPoolExecutor(NUM_SESSIONS) as pool:
        together = list(pool.map(session, range(NUM_SESSIONS)))
    stayed = [number for number in range(NUM_SESSIONS) if number % 5]
    assert [together[number] for number in stayed] == [alone[number] for number in stayed]
    assert all(alone[number].startswith(together[number]) for number in range(0, NUM_SESSIONS, 5))
    assert witnesses[0].preempted
    assert server.metric("vllm:prefix_cache_hits_total") > 0
    server.eventually(lambda: server.metric("headrace_in_flight") == 0)
    assert server.metric("headrace_requests_aborted_total") > 0
    assert server.metric("vllm:kv_cache_usage_perc") == 0
