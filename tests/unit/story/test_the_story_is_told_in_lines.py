"""The narrator, what it reads from a status, and how a wait ends: with a fake clock and a plain console."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from headrace_local.story.failure import StoryFailed
from headrace_local.story.narrator import Narrator
from headrace_local.story.service import ServiceView
from headrace_local.story.stage import Stage
from headrace_local.story.tools import Tools


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s

    def pause(self, seconds):
        self.now_s += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def out():
    return io.StringIO()


@pytest.fixture
def narrator(clock, out):
    return Narrator(Console(file=out, width=40), clock)


def test_every_line_has_its_time_and_is_never_wrapped(narrator, clock, out):
    clock.now_s += 12.34
    narrator.command("kubectl " + "x" * 200)
    narrator.tell("[not markup]")
    assert out.getvalue().splitlines() == ["  12.3 s  $ kubectl " + "x" * 200, "  12.3 s  [not markup]"]


def test_a_streamed_answer_is_one_line_and_ends_before_the_next(narrator, out):
    for piece in ("The sky", " is\nblue", "."):
        narrator.stream(piece)
    narrator.tell("done")
    assert out.getvalue().splitlines() == ["   0.0 s  The sky is blue.", "   0.0 s  done"]


def test_what_is_to_be_copied_has_no_time_before_it(narrator, out):
    narrator.stream("The sky")
    narrator.paste("cat <<'END'\n" + "x" * 60 + "\nEND")
    assert out.getvalue().splitlines() == ["   0.0 s  The sky", "cat <<'END'", "x" * 60, "END"]


def test_a_table_keeps_its_columns(narrator, out):
    narrator.row(("a", "bb", "why"), (4, 4), heading=True)
    narrator.row(("1", "2", "because it is so"), (4, 4))
    first, second = (line[10:] for line in out.getvalue().splitlines())
    assert first == "   a    bb  why"
    assert second == "   1     2  because it is so"


def test_a_wait_ends_with_the_first_answer(narrator, clock):
    stage = Stage(venue=None, api=None, narrator=narrator, clock=clock, pause=clock.pause)
    answers = iter([None, None, "ready"])
    assert stage.until("it", lambda: next(answers), timeout_s=5, look="-", seen=str) == "ready"
    assert clock.now_s == 100.5


def test_a_wait_in_vain_says_what_was_expected_seen_and_where_to_look(narrator, clock, out):
    stage = Stage(venue=None, api=None, narrator=narrator, clock=clock, pause=clock.pause)
    with pytest.raises(StoryFailed) as failed:
        stage.until("two pods", lambda: None, timeout_s=5, look="kubectl get pods", seen=lambda: "one pod")
    narrator.failed(failed.value)
    told = out.getvalue()
    assert "expected  two pods within 5 s" in told
    assert "seen      one pod" in told
    assert "look at   kubectl get pods" in told
    assert 105 <= clock.now_s < 106


def test_a_command_to_look_with_works_in_a_shell_that_knows_no_cluster(narrator):
    tools = Tools(("/bin/kubectl",), ("/bin/helm",), {}, "kubectl", "helm", "export KUBECONFIG=/there")
    stage = Stage(venue=SimpleNamespace(tools=tools), api=None, narrator=narrator)
    assert stage.look("get", "infs") == "export KUBECONFIG=/there && kubectl -n default get infs"


def test_an_object_without_status_says_nothing_rather_than_zero():
    view = ServiceView.of({"spec": {}})
    assert (view.replicas, view.limits, view.decision, view.history) == (None, (None, None), None, ())
    assert (view.limits_text, view.decision_text) == ("-/-", "none")
    assert not view.is_true("Ready")


def test_a_status_is_read_as_written():
    view = ServiceView.of(
        {
            "status": {
                "replicas": 2,
                "activeLimits": {"maxNumSeqs": 4, "maxNumBatchedTokens": 256},
                "conditions": [{"type": "Ready", "status": "True", "reason": "Serving", "message": "2 of 2"}],
                "decision": {
                    "id": "b",
                    "action": "Hold",
                    "reason": "WithinTarget",
                    "message": "fine",
                    "alternatives": [
                        {"action": "ScaleDown", "rejected": "AtMin", "message": "at minReplicas 1"}
                    ],
                },
                "history": [
                    {"id": "a", "action": "ScaleUp", "reason": "QueueTimeOverBudget", "message": "queue"}
                ],
            }
        }
    )
    assert view.limits_text == "4/256"
    assert view.is_true("Ready")
    assert str(view.condition("Ready")) == "Ready=True (Serving)"
    assert view.decision.rejected == ("ScaleDown (AtMin): at minReplicas 1",)
    assert view.decision_text == "Hold (WithinTarget): fine, rather than ScaleDown (AtMin): at minReplicas 1"
    assert str(view.history[0]) == "ScaleUp (QueueTimeOverBudget): queue"
