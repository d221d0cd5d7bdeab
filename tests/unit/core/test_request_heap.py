"""A heap from which anybody can leave."""

from headrace_engine.core.heap import RequestHeap
from headrace_engine.core.request import Request


def request(name: str) -> Request:
    return Request(name, (1,), 1, 0.0)


def test_equal_keys_keep_their_order():
    heap = RequestHeap()
    for name in "abc":
        heap.push(request(name), (1.0,))
    assert heap.peek().request_id == "a"


def test_who_comes_back_stands_at_its_new_place_alone():
    heap = RequestHeap()
    a, b = request("a"), request("b")
    heap.push(a, (1.0,))
    heap.push(b, (2.0,))
    heap.remove(a)
    heap.push(a, (3.0,))
    assert heap.peek() is b
    heap.remove(b)
    assert heap.peek() is a
    heap.remove(a)
    assert heap.peek() is None
    assert len(heap) == 0


def test_those_who_left_are_swept_out():
    heap = RequestHeap()
    heap.push(request("first"), (0.0,))
    for number in range(10_000):
        passing = request(f"r{number}")
        heap.push(passing, (1.0,))
        heap.remove(passing)
    assert len(heap._heap) < 100
