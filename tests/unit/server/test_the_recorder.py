"""What a report does to the metrics, on a fake clock."""

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Finished, Hold, Preempted, Scheduled, Tokens
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.telemetry.buckets import FINE_S, token_counts, with_edges
from headrace_engine.telemetry.metrics import SLO, Metrics
from headrace_engine.telemetry.recorder import Recorder
from headrace_engine.telemetry.report import Step, StepReport

CAPACITY = Capacity(max_num_seqs=1, max_num_batched_tokens=8, max_model_len=64, num_blocks=32, block_size=4)


def recorder_at(now_s: list[float], slo: SLO) -> tuple[Metrics, Recorder]:
    metrics = Metrics(model_name="m", max_model_len=64, slo=slo)
    return metrics, Recorder(metrics, slo, clock=lambda: now_s[0])


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"model_name": "m"} | labels)


def report(
    scheduler: Scheduler, now_s: float, *events: object, accepted: tuple[Request, ...] = ()
) -> StepReport:
    return StepReport(now_s, accepted, (), events, None, Limits.of(CAPACITY), scheduler.snapshot(now_s))


def test_the_age_of_what_waits_grows_between_reports() -> None:
    now_s = [10.0]
    metrics, recorder = recorder_at(now_s, SLO())
    scheduler = Scheduler(capacity=CAPACITY)
    request = Request("a", (1, 2), max_tokens=2, arrival_s=8.0)
    scheduler.submit(request, 10.0)
    recorder.record(report(scheduler, 10.0, accepted=(request,)))
    assert value(metrics, "headrace_oldest_waiting_age_seconds") == 2.0
    now_s[0] = 17.0
    assert value(metrics, "headrace_oldest_waiting_age_seconds") == 9.0
    scheduler.abort("a")
    recorder.record(report(scheduler, 17.0, Finished("a", FinishReason.ABORT)))
    assert value(metrics, "headrace_oldest_waiting_age_seconds") == 0.0


def finish(recorder: Recorder, name: str, first_s: float, gaps_s: list[float]) -> None:
    scheduler = Scheduler(capacity=CAPACITY)
    request = Request(name, (1, 2), max_tokens=9, arrival_s=0.0)
    recorder.record(report(scheduler, 0.0, Scheduled(name, 0.0, 0), accepted=(request,)))
    now_s = first_s
    recorder.record(report(scheduler, now_s, Tokens(name, [5])))
    for gap_s in gaps_s:
        now_s += gap_s
        recorder.record(report(scheduler, now_s, Tokens(name, [5])))
    recorder.record(report(scheduler, now_s, Finished(name, FinishReason.LENGTH)))


def test_an_answer_without_a_token_is_good_if_it_comes_in_time() -> None:
    metrics, recorder = recorder_at([0.0], SLO(ttft_s=1.0, itl_s=0.1))
    for name, ended_s in (("in time", 0.9), ("late", 1.1)):
        scheduler, request = Scheduler(capacity=CAPACITY), Request(name, (1, 2), max_tokens=0, arrival_s=0.0)
        recorder.record(report(scheduler, 0.0, Scheduled(name, 0.0, 0), accepted=(request,)))
        recorder.record(report(scheduler, ended_s, Finished(name, FinishReason.LENGTH)))
    outcomes = {
        each: value(metrics, "headrace_requests_finished_total", outcome=each) for each in ("good", "late")
    }
    assert outcomes == {"good": 1, "late": 1}


def test_who_is_first_scheduled_by_a_share_is_counted() -> None:
    metrics, recorder = recorder_at([0.0], SLO())
    for name, by_share in (("owed", True), ("in turn", False)):
        scheduler, request = Scheduler(capacity=CAPACITY), Request(name, (1, 2), max_tokens=9, arrival_s=0.0)
        scheduled = Scheduled(name, 0.0, 0, by_share=by_share)
        recorder.record(report(scheduler, 0.0, scheduled, accepted=(request,)))
    assert value(metrics, "headrace_admissions_by_share_total") == 1


def test_good_is_both_objectives_met() -> None:
    metrics, recorder = recorder_at([0.0], SLO(ttft_s=1.0, itl_s=0.1))
    finish(recorder, "good", 0.9, [0.05, 0.14])
    finish(recorder, "slow to start", 1.1, [0.05])
    finish(recorder, "slow to go on", 0.5, [0.05, 0.25])
    finish(recorder, "one token", 0.5, [])
    assert value(metrics, "headrace_requests_finished_total", outcome="good") == 2
    assert value(metrics, "headrace_requests_finished_total", outcome="late") == 2
    assert value(metrics, "headrace_requests_good_total") == 2


def test_a_first_token_that_is_the_end_is_a_first_token() -> None:
    metrics, recorder = recorder_at([0.0], SLO())
    scheduler = Scheduler(capacity=CAPACITY)
    request = Request("a", (1, 2), max_tokens=9, arrival_s=0.0)
    ended = Finished("a", FinishReason.STOP, stop_token_id=2)
    recorder.record(report(scheduler, 0.5, Scheduled("a", 0.0, 0), ended, accepted=(request,)))
    assert value(metrics, "headrace_time_to_first_token_seconds_count") == 1
    assert value(metrics, "vllm:generation_tokens_total", engine="0") == 1


def test_slo_edges_fall_between_the_fine_buckets() -> None:
    assert with_edges((0.1, 0.5), 0.3, None, 0.5) == (0.1, 0.3, 0.5)
    assert with_edges(FINE_S, None) == FINE_S


def test_token_buckets_end_at_the_longest_sequence() -> None:
    assert token_counts(64) == (1, 2, 5, 10, 20, 50)


def test_a_request_that_ends_without_being_told_is_an_alarm(caplog) -> None:
    metrics, recorder = recorder_at([0.0], SLO())
    scheduler = Scheduler(capacity=CAPACITY)
    requests = [Request(name, (1, 2), max_tokens=2, arrival_s=0.0) for name in "ab"]
    for request in requests:
        scheduler.submit(request, 0.0)
    recorder.record(report(scheduler, 0.0, accepted=tuple(requests)))
    assert value(metrics, "headrace_requests_unaccounted") == 0
    recorder.record(report(scheduler, 0.0, scheduler.abort("a")))
    assert value(metrics, "headrace_requests_unaccounted") == 0
    scheduler.abort("b")
    for _ in range(3):
        recorder.record(report(scheduler, 0.0))
    assert value(metrics, "headrace_requests_unaccounted") == 1
    assert [record.message for record in caplog.records] == ["requests are unaccounted for"]


def test_who_was_preempted_stands_in_the_log_with_what_it_cost(caplog) -> None:
    metrics, recorder = recorder_at([0.0], SLO())
    scheduler = Scheduler(capacity=CAPACITY)
    request = Request("a", (1, 2), max_tokens=2, arrival_s=0.0)
    scheduler.submit(request, 0.0)
    with caplog.at_level("INFO"):
        recorder.record(report(scheduler, 0.0, Preempted("a", 17), accepted=(request,)))
    line = vars(next(record for record in caplog.records if record.message == "preempted"))
    assert (line["preempted"], line["lost_tokens"]) == ("a", 17)
    assert (line["kv_usage_before"], line["kv_usage_after"]) == (0.0, 0.0)
    assert value(metrics, "vllm:num_preemptions_total", engine="0") == 1


def test_why_requests_waited_is_counted() -> None:
    metrics, recorder = recorder_at([0.0], SLO())
    scheduler = Scheduler(capacity=CAPACITY)
    step = Step(1, 0, 0.1, holds=(Hold.TENANT, Hold.TENANT, Hold.SLOTS))
    recorder.record(StepReport(0.0, (), (), (), step, Limits.of(CAPACITY), scheduler.snapshot(0.0)))
    assert value(metrics, "headrace_admission_holds_total", reason="tenant") == 2
    assert value(metrics, "headrace_admission_holds_total", reason="slots") == 1
    assert value(metrics, "headrace_admission_holds_total", reason="blocks") == 0


def end_together(recorder: Recorder, ends: list[tuple[int, FinishReason]]) -> None:
    """Outputs of one prompt, each with so many tokens and such an end."""
    scheduler = Scheduler(capacity=CAPACITY)
    requests = [
        Request(f"p{place}", (1, 2), max_tokens=9, arrival_s=0.0, leader="p0" if place else "")
        for place in range(len(ends))
    ]
    begun = [Scheduled(request.request_id, 0.0, 0) for request in requests]
    recorder.record(report(scheduler, 0.0, *begun, accepted=tuple(requests)))
    for request, (num_tokens, reason) in zip(requests, ends, strict=True):
        tokens = [Tokens(request.request_id, [5]) for _ in range(num_tokens)]
        recorder.record(report(scheduler, 1.0, *tokens, Finished(request.request_id, reason)))


def test_the_outputs_of_a_prompt_are_one_request_of_vllms() -> None:
    metrics, recorder = recorder_at([0.0], SLO())
    end_together(recorder, [(3, FinishReason.LENGTH)])
    end_together(recorder, [(2, FinishReason.STOP), (7, FinishReason.LENGTH), (1, FinishReason.ABORT)])
    end_together(recorder, [(4, FinishReason.ABORT), (4, FinishReason.ERROR)])
    outputs, longest = "vllm:request_params_n", "vllm:request_max_num_generation_tokens"
    assert [value(metrics, f"{name}_count", engine="0") for name in (outputs, longest)] == [2, 2]
    assert [value(metrics, f"{name}_sum", engine="0") for name in (outputs, longest)] == [1 + 3, 3 + 7]
    assert value(metrics, f"{outputs}_bucket", engine="0", le="1.0") == 1
    assert recorder._outputs._open == {}
