"""Workers, a queue on the loop's clock, and reconciles that go wrong."""

import asyncio

import pytest

from headrace_operator.kube.errors import KubeError
from headrace_operator.kube.kinds import Key
from headrace_operator.kube.leadership import Leadership
from headrace_operator.run.queue import WorkQueue
from headrace_operator.run.workers import Workers

CHAT, CODE = Key("a", "chat"), Key("a", "code")


class Story:
    """What `reconcile` does at each call, and what came of it."""

    def __init__(self, *outcomes) -> None:
        self.outcomes = list(outcomes)
        self.seen: list[Key] = []
        self.results: list[str] = []
        self.at_once = 0
        self.most_at_once = 0

    async def reconcile(self, key: Key) -> float | None:
        self.seen.append(key)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
async def run():
    """Runs workers over a story until it is told, then closes the queue."""

    async def run(story: Story, *keys: Key, leads: bool = True, number: int = 2) -> WorkQueue:
        def clock() -> float:
            return 100.0  # it stands still, however long a test may be kept from running

        queue, leadership = WorkQueue(clock=clock), Leadership(clock)
        if leads:
            leadership.extend(clock() + 60)
        workers = Workers(
            queue=queue,
            reconciler=story,
            leadership=leadership,
            number=number,
            clock=clock,
            observe=lambda _key, result, _seconds: story.results.append(result),
        )
        for key in keys:
            queue.add(key)
        running = asyncio.create_task(workers.run())
        for _ in range(200):
            await asyncio.sleep(0)
        story.wakes = {key: queue.wake_at_s(key) and queue.wake_at_s(key) - clock() for key in (CHAT, CODE)}
        queue.close()
        await asyncio.wait_for(running, 60)
        return queue

    return run


async def test_what_went_well_is_looked_at_again_after_its_interval_with_some_spread(run):
    story = Story(10.0)
    await run(story, CHAT)
    assert story.results == ["Ok"]
    assert 7.5 < story.wakes[CHAT] < 12.5


async def test_what_is_no_more_is_not_looked_at_again(run):
    story = Story(None)
    await run(story, CHAT)
    assert story.wakes[CHAT] is None


async def test_a_bug_costs_its_service_a_delay_and_nobody_else_anything(run, caplog):
    story = Story(ZeroDivisionError("a bug"), 10.0)
    await run(story, CHAT, CODE, number=1)
    assert story.seen == [CHAT, CODE]
    assert story.results == ["Bug", "Ok"]
    assert 0 < story.wakes[CHAT] < 2
    assert "ZeroDivisionError" in caplog.text, "with its traceback"


async def test_an_error_of_the_server_is_retried_without_a_traceback(run, caplog):
    story = Story(KubeError(500, "InternalError", "etcd"))
    await run(story, CHAT)
    assert story.results == ["ServerError"]
    assert "Traceback" not in caplog.text


async def test_a_standby_reconciles_nothing_and_keeps_its_keys(run):
    story = Story()
    await run(story, CHAT, leads=False)
    assert (story.seen, story.results) == ([], [])
    assert story.wakes[CHAT] > 0


async def test_workers_work_side_by_side(run):
    story = Story(1.0, 1.0)
    await run(story, CHAT, CODE)
    assert story.most_at_once == 2
