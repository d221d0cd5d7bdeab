"""The work queue, by a clock that the test moves."""

import asyncio

from headrace_operator.kube.kinds import Key
from headrace_operator.run.queue import WorkQueue

CHAT, CODE, OTHER = Key("a", "chat"), Key("a", "code"), Key("b", "chat")


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_key_added_twice_is_worked_on_once():
    queue = WorkQueue(clock=Clock())
    queue.add(CHAT)
    queue.add(CHAT)
    assert queue.pop() == CHAT
    assert queue.pop() is None


def test_a_key_added_while_it_is_worked_on_comes_again_afterwards():
    queue = WorkQueue(clock=Clock())
    queue.add(CHAT)
    queue.pop()
    queue.add(CHAT)
    assert queue.pop() is None, "the same key is never worked on twice at once"
    queue.done(CHAT)
    assert queue.pop() == CHAT


def test_of_two_wakes_the_earlier_one_stays_whatever_their_order():
    clock = Clock()
    queue = WorkQueue(clock=clock)
    queue.add_after(CHAT, 5.0)
    queue.add_after(CHAT, 60.0)
    queue.add_after(CODE, 60.0)
    queue.add_after(CODE, 5.0)
    clock.now_s += 5.0
    assert [queue.pop(), queue.pop(), queue.pop()] == [CHAT, CODE, None]
    queue.done(CHAT)
    queue.done(CODE)
    clock.now_s += 60.0
    assert queue.pop() is None, "a replaced wake does not ring"


def test_work_on_a_key_uses_up_its_pending_wake():
    clock = Clock()
    queue = WorkQueue(clock=clock)
    queue.add_after(CHAT, 5.0)
    queue.add(CHAT)
    queue.pop()
    queue.done(CHAT)
    clock.now_s += 5.0
    assert queue.pop() is None


def test_namespaces_take_turns():
    queue = WorkQueue(clock=Clock())
    many = [Key("a", f"s{i}") for i in range(3000)]
    for key in many:
        queue.add(key)
    queue.add(OTHER)
    assert queue.pop() == many[0]
    assert queue.pop() == OTHER, "one service of b does not wait for three thousand of a"


def test_the_age_of_the_queue_is_that_of_its_oldest_key():
    clock = Clock()
    queue = WorkQueue(clock=clock)
    assert queue.oldest_age_s() == 0
    queue.add(CHAT)
    clock.now_s += 3.0
    queue.add(CODE)
    queue.add(CHAT)
    assert queue.oldest_age_s() == 3.0


async def test_a_waiting_worker_gets_a_key_as_soon_as_it_is_added():
    queue = WorkQueue(clock=asyncio.get_running_loop().time)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add(CHAT)
    assert await asyncio.wait_for(waiting, 30) == CHAT


async def test_a_waiting_worker_is_woken_by_a_wake_that_is_earlier_than_the_one_it_waits_for():
    queue = WorkQueue(clock=asyncio.get_running_loop().time)
    queue.add_after(CODE, 60.0)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after(CHAT, 0.01)
    assert await asyncio.wait_for(waiting, 30) == CHAT


async def test_closing_sends_every_waiting_worker_home_and_takes_nothing_more():
    queue = WorkQueue(clock=asyncio.get_running_loop().time)
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    queue.add(CHAT)
    assert await asyncio.wait_for(asyncio.gather(*workers), 30) == [None, None, None]
    assert await queue.get() is None
