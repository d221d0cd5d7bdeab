"""The contract between the two halves, held by both sides' own code: metrics, and signed calls."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headrace_engine.server.signed_call import Call, CallRejected, Nonces, load_keys, verify
from headrace_engine.telemetry.metrics import SLO, Metrics
from headrace_operator.observe.admin import Signer
from headrace_operator.observe.exposition import parse
from headrace_operator.observe.sample import sample
from headrace_operator.observe.series import PodSeries, subtracted
from headrace_operator.runtimes.metric_map import HEADRACE, Counter, Distribution, Gauge

LABELLED = {Gauge.MAX_NUM_SEQS, Gauge.MAX_NUM_BATCHED_TOKENS, Gauge.BY_SHARES, Gauge.BY_CLASSES}


@pytest.fixture
def engine() -> Metrics:
    return Metrics(model_name="m", max_model_len=2048, slo=SLO(ttft_s=0.7, itl_s=0.03))


def scrape(engine: Metrics, at_s: float = 0.0):
    return sample(parse(engine.render(), wanted=HEADRACE.wanted), metrics=HEADRACE, at_s=at_s)


def test_a_fresh_engine_reports_everything_that_decisions_need_at_zero(engine: Metrics):
    found = scrape(engine)
    assert found.counters == dict.fromkeys(Counter, 0.0)
    assert {name: buckets.total for name, buckets in found.distributions.items()} == dict.fromkeys(
        Distribution, 0.0
    )
    assert set(found.gauges) == set(Gauge) - LABELLED
    assert found.implausible == 0


def test_limits_are_found_by_name(engine: Metrics):
    engine.limit.labels("m", "max_num_seqs").set(8)
    engine.limit.labels("m", "max_num_batched_tokens").set(512)
    gauges = scrape(engine).gauges
    assert (gauges[Gauge.MAX_NUM_SEQS], gauges[Gauge.MAX_NUM_BATCHED_TOKENS]) == (8, 512)


def test_the_policy_is_found_by_its_name(engine: Metrics):
    engine.policy.labels("m", "slo").set(1)
    engine.policy.labels("m", "fair").set(0)
    gauges = scrape(engine).gauges
    assert (gauges[Gauge.BY_CLASSES], gauges[Gauge.BY_SHARES]) == (1, 0)


def test_the_declared_targets_are_edges_of_what_is_observed(engine: Metrics):
    series = PodSeries()
    series.append(scrape(engine, 0.0))
    for seconds in (0.5, 0.69, 0.71):
        engine.fine_ttft.observe(seconds)
    series.append(scrape(engine, 2.0))
    first, last = (found.distributions[Distribution.TTFT] for found in series.samples)
    seen = subtracted(last, first)
    assert dict(zip(seen.upper_edges, seen.counts, strict=True))[0.7] == 2, "the share that met it is exact"
    assert seen.total == 3
    assert 0.03 in scrape(engine).distributions[Distribution.ITL].upper_edges


CALL = {"pod_uid": "pod", "method": "PATCH", "path": "/v1/admin/limits", "body": b'{"max_num_seqs":8}'}


def accepted(
    signer: Signer, token: str, *, now_s: float = 1000.0, nonces: Nonces | None = None, **arrived
) -> bool:
    call = CALL | arrived
    keys = load_keys(json.loads(signer.public_keys()))
    try:
        verify(
            token,
            Call(call["method"], call["path"], call["body"]),
            keys=keys,
            audience=call["pod_uid"],
            nonces=nonces or Nonces(),
            now_s=now_s,
        )
    except CallRejected:
        return False
    return True


@pytest.fixture
def signer() -> Signer:
    return Signer(Ed25519PrivateKey.generate())


def test_the_engine_takes_a_call_that_the_operator_signed(signer: Signer):
    assert accepted(signer, signer.token(**CALL, now_s=1000.0))


@pytest.mark.parametrize(
    "arrived",
    [
        {"pod_uid": "another"},
        {"method": "POST"},
        {"path": "/v1/admin/drain"},
        {"path": "/v1/admin/limits?x=1"},
        {"body": b'{"max_num_seqs":9}'},
        {"now_s": 1036.0},
        {"now_s": 990.0},
    ],
    ids=str,
)
def test_the_engine_refuses_it_for_anything_else(signer: Signer, arrived):
    assert not accepted(signer, signer.token(**CALL, now_s=1000.0), **arrived)


def test_the_engine_refuses_it_twice_and_from_another_key(signer: Signer):
    token, nonces = signer.token(**CALL, now_s=1000.0), Nonces()
    assert accepted(signer, token, nonces=nonces)
    assert not accepted(signer, token, nonces=nonces)
    assert not accepted(signer, Signer(Ed25519PrivateKey.generate()).token(**CALL, now_s=1000.0))
