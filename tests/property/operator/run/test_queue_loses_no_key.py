"""Whatever is added, and however work ends: no key is lost, worked on twice at once, or handed out early."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace_operator.kube.kinds import Key
from headrace_operator.run.queue import WorkQueue

KEYS = st.builds(Key, st.sampled_from("ab"), st.sampled_from("xyz"))
DELAYS = st.floats(0, 20)


class QueueMachine(RuleBasedStateMachine):
    """A model beside the queue: what is owed to each key, and since when it may be handed out."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.queue = WorkQueue(clock=lambda: self.now_s)
        self.owed: set[Key] = set()
        self.wakes: dict[Key, float] = {}
        self.busy: set[Key] = set()

    @rule(key=KEYS)
    def add(self, key: Key) -> None:
        self.queue.add(key)
        self.owed.add(key)

    @rule(key=KEYS, delay_s=DELAYS)
    def add_after(self, key: Key, delay_s: float) -> None:
        self.queue.add_after(key, delay_s)
        self.wakes[key] = min(self.wakes.get(key, float("inf")), self.now_s + delay_s)

    @rule(seconds=DELAYS)
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def pop(self) -> None:
        rung = {key for key, at_s in self.wakes.items() if at_s <= self.now_s}
        self.owed |= rung
        for key in rung:
            del self.wakes[key]
        key = self.queue.pop()
        if key is None:
            assert not self.owed - self.busy, "a due key was held back"
            return
        assert key in self.owed, "a key was handed out that nobody asked for"
        assert key not in self.busy, "a key was handed out twice at once"
        self.owed.remove(key)
        self.wakes.pop(key, None)
        self.busy.add(key)

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.busy)))
        self.queue.done(key)
        self.busy.remove(key)

    @invariant()
    def what_is_worked_on_is_agreed(self) -> None:
        assert self.queue.busy == self.busy

    @invariant()
    def each_key_has_the_earliest_wake_that_was_asked_for(self) -> None:
        for key, at_s in self.wakes.items():
            if at_s > self.now_s:
                assert self.queue.wake_at_s(key) == at_s

    def teardown(self) -> None:
        for key in sorted(self.busy):
            self.queue.done(key)
        rung = {key for key, at_s in self.wakes.items() if at_s <= self.now_s}
        handed_out = set()
        while (key := self.queue.pop()) is not None:
            handed_out.add(key)
        assert handed_out == self.owed | rung


QueueMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestQueue = QueueMachine.TestCase
