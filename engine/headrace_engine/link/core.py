"""The engine core behind the link: loads a model, then steps, until it is told to stop or left alone.

A thread reads commands, one writes notices, and the step loop has one of its own; it is the same whether the
three run in a process of their own or in HTTP's.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from headrace_engine.core.limits import Capacity
from headrace_engine.core.policies import policy_of
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.core.tenants import Tenants
from headrace_engine.link import messages as say
from headrace_engine.link.frames import Frames
from headrace_engine.link.outbox import Outbox
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.server.heartbeat import LEAST_STALL_S
from headrace_engine.server.loop import StepLoop
from headrace_engine.server.model import Load, ModelFacts, Runner
from headrace_engine.server.rules import Rules

log = logging.getLogger(__name__)

READ_BYTES = 256 << 10
LAST_WORDS_S = 1.0
"""How long what is left to say is written to a side that may not read it."""


class EngineCore:
    """Made with its end of the link; `run` returns when it is over."""

    def __init__(
        self, link: socket.socket, load: Load, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._link = link
        self._load = load
        self._clock = clock
        self._outbox = Outbox(link, self._pulse)
        self._model: tuple[Runner, ModelFacts] | None = None
        self._loop: StepLoop | None = None

    def run(self) -> bool:
        """Obeys until told to stop. False: the other side is gone without a word, or says what nobody
        understands.
        """
        self._outbox.start()
        threading.Thread(target=self._load_model, name="load-model", daemon=True).start()
        told = False
        try:
            told = self._obey_until_told()
        except OSError:
            pass
        except Exception:
            log.exception("the engine core cannot do what it is told")
        if self._loop is not None and told:
            self._loop.stop()
        self._outbox.close(LAST_WORDS_S)
        return told

    def _load_model(self) -> None:
        try:
            self._model = self._load(lambda directory: self._outbox.tell(say.Found(directory)))
        except ModelLoadError as error:
            self._outbox.tell(say.NotLoaded(str(error)))
        except BaseException:
            log.exception("loading failed")
            self._outbox.tell(say.NotLoaded(None))
        else:
            self._outbox.tell(say.Loaded(self._model[1]))

    def _obey_until_told(self) -> bool:
        frames = Frames()
        while piece := self._link.recv(READ_BYTES):
            for payload in frames.feed(piece):
                command = say.COMMANDS.validate_json(payload)
                if isinstance(command, say.Stop):
                    return True
                self._obey(command)
        return False

    def _obey(self, command: say.Command) -> None:
        if isinstance(command, say.Open):
            self._open(command)
            return
        assert self._loop is not None, "HTTP opens the core before it asks anything of it"
        match command:
            case say.Submit(requests=requests):
                self._loop.submit(requests)
            case say.Abort(request_ids=request_ids, reason=reason):
                self._loop.abort(request_ids, reason)
            case say.SetRules():
                self._set_rules(self._loop, command)
            case say.CloseAdmission():
                self._loop.call(lambda scheduler: scheduler.close())

    def _open(self, command: say.Open) -> None:
        assert self._model is not None, "HTTP opens the core after it was told that the model is loaded"
        runner, facts = self._model
        self._loop = StepLoop(
            scheduler(facts.capacity, command.rules, enable_prefix_caching=command.enable_prefix_caching),
            runner,
            deliver=self._outbox.put,
            on_failure=lambda: self._outbox.tell(say.Failed()),
            clock=self._clock,
        )
        self._loop.start()

    def _set_rules(self, loop: StepLoop, command: say.SetRules) -> None:
        def apply(scheduler: Scheduler) -> None:
            rules = command.rules
            scheduler.set_limits(rules.limits)
            scheduler.set_contract(rules.contract)
            if command.new_policy:
                policy = policy_of(rules.policy, scheduler.tenants, scheduler.prefill_rate)
                scheduler.set_policy(policy, self._clock())

        def answer(applied: "Future[None]") -> None:
            error = applied.exception()
            self._outbox.tell(say.RulesSet(command.number, None if error is None else str(error)))

        loop.call(apply).add_done_callback(answer)

    def _pulse(self) -> say.Pulse | None:
        if self._loop is None:
            return say.Pulse(None, LEAST_STALL_S)
        heartbeat = self._loop.heartbeat
        return say.Pulse(heartbeat.waiting_since_s, heartbeat.stalled_after_s)


def scheduler(capacity: Capacity, rules: Rules, *, enable_prefix_caching: bool) -> Scheduler:
    """A scheduler that goes by these rules."""
    tenants, rate = Tenants(rules.contract), PrefillRate()
    return Scheduler(
        capacity=capacity,
        limits=rules.limits,
        policy=policy_of(rules.policy, tenants, rate),
        tenants=tenants,
        prefill_rate=rate,
        enable_prefix_caching=enable_prefix_caching,
    )
