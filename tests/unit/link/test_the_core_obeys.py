"""The engine core on its end of the link, with the test in HTTP's place and a model that counts."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Finished, Outcome, Plan
from headrace_engine.core.request import FinishReason, Request
from headrace_engine.link import messages as say
from headrace_engine.link import reports
from headrace_engine.link.core import EngineCore
from headrace_engine.link.frames import Frames, framed
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.server.model import ModelFacts
from headrace_engine.server.rules import Rules
from headrace_engine.telemetry.report import StepReport

FACTS = ModelFacts(
    capacity=Capacity(4, 16, 64, 32, 4), vocab_size=258, eos_token_ids=frozenset({0}), dtype="float32"
)
ENDLESS = Request("endless", (1, 2), max_tokens=60, arrival_s=0.0)


class Counting:
    """Each token is the position after it. `may_step` holds a step up."""

    def __init__(self) -> None:
        self.may_step = threading.Event()
        self.may_step.set()

    def run(self, plan: Plan) -> Outcome:
        assert self.may_step.wait(60)
        return Outcome({row.request_id: [row.start + 1] for row in plan.rows if row.sampled_rows}, 0.0)


class Http:
    """The other end."""

    def __init__(self) -> None:
        self.runner = Counting()
        self.link, self._far = socket.socketpair()
        self.link.settimeout(60)
        self._frames = Frames()
        self._came: list[bytes] = []
        self.ended: list[bool] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._far:
            self.ended.append(EngineCore(self._far, self._load).run())

    def _load(self, found) -> tuple[Counting, ModelFacts]:
        found(Path("/models/counting"))
        return self.runner, FACTS

    def ask(self, *commands: say.Command) -> None:
        self.link.sendall(b"".join(framed(say.COMMANDS.dump_json(command)) for command in commands))

    def hear(self) -> StepReport | say.Notice:
        """The next that is no pulse."""
        while True:
            while not self._came:
                self._came += self._frames.feed(self.link.recv(65536))
            told = self._came.pop(0)
            if told[:1] == say.REPORT:
                return reports.decode(told[1:], {ENDLESS.request_id: ENDLESS})
            notice = say.NOTICES.validate_json(told[1:])
            if not isinstance(notice, say.Pulse):
                return notice

    def opened(self) -> "Http":
        assert self.hear() == say.Found(Path("/models/counting"))
        assert self.hear() == say.Loaded(FACTS)
        self.ask(say.Open(Rules(Limits.of(FACTS.capacity)), enable_prefix_caching=True))
        return self

    def over(self) -> bool:
        """Whether it was told to stop, once it has ended."""
        self._thread.join(60)
        return self.ended[0]


@pytest.fixture
def http() -> Iterator[Http]:
    http = Http()
    yield http
    http.link.close()


def test_it_steps_and_answers_what_is_left_when_it_is_stopped(http) -> None:
    http.opened().ask(say.Submit((ENDLESS,)))
    assert http.hear().accepted == (ENDLESS,)
    http.runner.may_step.clear()
    http.ask(say.Stop())
    http.runner.may_step.set()
    events = []
    while not (events and isinstance(events[-1], Finished)):
        events += http.hear().events
    assert events[-1].reason in {FinishReason.ERROR, FinishReason.LENGTH}
    assert http.over() is True


def test_an_abort_is_obeyed_between_two_steps(http) -> None:
    http.runner.may_step.clear()
    http.opened().ask(say.Submit((ENDLESS,)), say.Abort(("endless",), FinishReason.ABORT))
    http.runner.may_step.set()
    events = []
    while not (events and isinstance(events[-1], Finished)):
        events += http.hear().events
    assert events[-1].reason is FinishReason.ABORT


def test_a_change_of_rules_is_answered_when_it_holds_or_cannot(http) -> None:
    http.opened()
    for number, limits in enumerate([Limits(2, 8), Limits(99, 8)]):
        http.ask(say.SetRules(number, Rules(limits), new_policy=False))
    heard = [http.hear() for _ in range(3)]
    answers = {each.number: each.error for each in heard if isinstance(each, say.RulesSet)}
    assert answers[0] is None
    assert "max_num_seqs" in answers[1]


def test_left_alone_it_ends_without_a_word(http) -> None:
    http.opened().ask(say.Submit((ENDLESS,)))
    http.link.close()
    assert http.over() is False


def test_what_it_does_not_understand_ends_it(http, caplog) -> None:
    http.link.sendall(framed(b'{"kind":"gossip"}'))
    assert http.over() is False
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize(
    ("error", "reason"), [(ModelLoadError("add memory"), "add memory"), (ZeroDivisionError("/ 0"), None)]
)
def test_why_a_model_cannot_be_loaded_is_told(monkeypatch, error, reason) -> None:
    def load(_self, _found):
        raise error

    monkeypatch.setattr(Http, "_load", load)
    http = Http()
    assert http.hear() == say.NotLoaded(reason)
    http.ask(say.Stop())
    assert http.over() is True
