"""Fair shares: what each tenant is charged, whose turn it is, and who need not wait for whom."""

import pytest

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.fair import FairShare
from headrace_engine.core.least_served import LeastServed
from headrace_engine.core.plan import Hold, Preempted
from headrace_engine.core.policy import FirstComeFirstServed
from headrace_engine.core.request import Request
from headrace_engine.core.step import YIELDING_SHARE
from headrace_engine.core.tenants import Prices, Tenants


def make_fair(make_loop, *, tenants=None, **values):
    tenants = tenants or Tenants()
    return make_loop(policy=FairShare(tenants, FirstComeFirstServed), tenants=tenants, **values)


def admitted(loop):
    """Ids in the order of their first scheduling."""
    return [event.request_id for event in loop.events if hasattr(event, "queue_time_s")]


def test_a_flooding_tenant_does_not_delay_another(make_loop):
    loop = make_fair(make_loop, max_num_seqs=1)
    for number in range(50):
        loop.submit(f"flood{number}", 4, max_tokens=4, tenant="flood")
    loop.steps(6)
    loop.submit("quiet", 4, max_tokens=4, tenant="quiet")
    loop.drain()
    assert "quiet" in admitted(loop)[:3]


def test_weights_divide_the_service(make_loop):
    tenants = Tenants(Contract({"gold": Terms(weight=3.0)}))
    loop = make_fair(make_loop, tenants=tenants, max_num_seqs=1)
    for number in range(60):
        for tenant in ("gold", "plain"):
            loop.submit(f"{tenant}{number}", 4, max_tokens=4, tenant=tenant)
    while len(loop.finished) < 40:
        loop.step()
    assert sum(name.startswith("gold") for name in loop.finished) == pytest.approx(30, abs=1)


@pytest.mark.parametrize("busy_requests", [60, 600])
def test_an_idle_tenant_banks_no_credit_beyond_a_burst(make_loop, busy_requests):
    """However long it was away, it is ahead by a burst, and from then on both are served the same."""
    tenants = Tenants()
    loop = make_fair(make_loop, tenants=tenants, max_num_seqs=1, max_model_len=32)
    loop.submit("early", 4, max_tokens=1, tenant="idle")
    for number in range(busy_requests + 60):
        loop.submit(f"busy{number}", 4, max_tokens=4, tenant="busy")
    while len(loop.finished) < busy_requests:
        loop.step()
    for number in range(60):
        loop.submit(f"back{number}", 4, max_tokens=4, tenant="idle")
    before = len(admitted(loop))
    while len(loop.finished) < busy_requests + 60:
        loop.step()
    back = [name.startswith("back") for name in admitted(loop)[before:]]
    burst_requests = tenants.burst / (4 + 3 * 2.0)
    assert tenants.burst == 2 * 32
    assert sum(back) - (len(back) - sum(back)) == pytest.approx(burst_requests, abs=2)


def test_an_idle_tenant_banks_no_credit_while_nobody_waits(make_loop):
    tenants = Tenants()
    loop = make_fair(make_loop, tenants=tenants, max_num_seqs=8, max_model_len=16)
    for number in range(20):
        loop.submit(f"busy{number}", 4, max_tokens=4, tenant="busy")
        loop.drain()
    loop.submit("new", 4, max_tokens=4, tenant="new")
    assert tenants.service("busy") - tenants.service("new") <= tenants.burst + 10


def test_a_tenant_that_its_cap_held_back_is_ahead_by_a_burst_when_the_cap_goes(make_loop):
    """It waits all the time, out of everybody's way: that earns no more than being away does."""
    tenants = Tenants(Contract({"capped": Terms(max_num_seqs=1)}))
    loop = make_fair(make_loop, tenants=tenants, max_num_seqs=4, max_model_len=32)
    for number in range(300):
        loop.submit(f"capped{number}", 4, max_tokens=4, tenant="capped")
        loop.submit(f"other{number}", 4, max_tokens=4, tenant="other")
    loop.steps(300)
    assert tenants.service("other") > 10 * tenants.burst
    loop.scheduler.set_contract(Contract())
    assert tenants.service("other") - tenants.service("capped") <= tenants.burst + 2 * 4 * (4 + 3 * 2)


def test_a_new_beginning_forgets_who_was_served_more():
    tenants = Tenants()
    tenants.longest_tokens = 1000
    for tenant, prompt_tokens in (("much", 500), ("less", 400)):
        tenants.arrives(tenant, 0.0)
        tenants.charge(Request(tenant, (1,) * prompt_tokens, 1, 0.0, tenant=tenant), prompt_tokens)
    assert tenants.least_around(0.0) == 400
    tenants.start_over()
    assert tenants.least_around(0.0) == 0
    tenants.charge(Request("again", (1,) * 100, 1, 0.0, tenant="less"), 100)
    assert tenants.least_around(0.0) == tenants.service("much") == 0


def test_work_done_twice_is_charged_once(make_loop):
    tenants = Tenants(prices=Prices(input=1.0, cached=0.0, output=2.0))
    loop = make_loop(tenants=tenants, num_blocks=12, block_size=1, enable_prefix_caching=False)
    for number in range(6):
        loop.submit(f"r{number}", 2, max_tokens=4, tenant="a")
    loop.drain()
    assert loop.snapshot.preemptions_total
    assert tenants.service("a") == 6 * (2 * 1.0 + 3 * 2.0)


def test_a_long_answer_is_charged_while_it_is_generated(make_loop):
    tenants = Tenants()
    loop = make_fair(make_loop, tenants=tenants, block_size=4)
    loop.submit("answer", 4, max_tokens=100, tenant="a")
    loop.steps(50)
    assert tenants.service("a") == pytest.approx(4 * 1.0 + 49 * 2.0, abs=2.0 * 4)


def test_a_chunk_is_charged_when_it_is_scheduled_and_an_abort_pays_for_no_more(make_loop):
    tenants = Tenants()
    loop = make_fair(make_loop, tenants=tenants, max_num_batched_tokens=8)
    loop.submit("book", 100, tenant="a")
    loop.step()
    loop.scheduler.abort("book")
    assert tenants.service("a") == 8.0


def test_found_tokens_are_cheaper_than_computed_ones(make_loop):
    tenants = Tenants(prices=Prices(cached=0.25))
    loop = make_fair(make_loop, tenants=tenants, block_size=4)
    prompt = list(range(9))
    loop.submit("a", prompt, max_tokens=1, tenant="first")
    loop.drain()
    loop.submit("b", prompt, max_tokens=1, tenant="second")
    start = tenants.service("second")
    loop.drain()
    assert tenants.service("second") - start == 8 * 0.25 + 1.0


def test_tenants_that_are_gone_are_forgotten():
    tenants = Tenants()
    for number in range(100_000):
        tenants.arrives(f"t{number}", float(number))
        tenants.least_around(float(number))
    assert len(tenants._service) <= 2 * Tenants._MOST_REMEMBERED
    assert len(tenants._around) <= Tenants.AROUND_S + 1


class CountingTenants(Tenants):
    """Counts how often it is asked what somebody was served."""

    asked = 0

    def counted(self, tenant):
        self.asked += 1
        return super().counted(tenant)


def test_tenants_that_asked_once_cost_nothing_more_however_many_they_were(make_loop):
    def asked_per_step(num_tenants):
        tenants = CountingTenants()
        loop = make_fair(make_loop, tenants=tenants, max_model_len=64, max_num_batched_tokens=8)
        for number in range(num_tenants):
            tenants.arrives(f"t{number}", 0.0)
        for number in range(60):
            loop.submit(f"flood{number}", 50, max_tokens=1, tenant="flood")
        loop.steps(20)
        tenants.asked = 0
        loop.steps(300)
        return tenants.asked / 300

    assert asked_per_step(3 * Tenants._MOST_REMEMBERED) < 2 * asked_per_step(100)


class TestWhoIsFarBehindNeedNotWait:
    """A flood has been at it for a while; the other tenant asks now and then."""

    @pytest.fixture
    def flooded(self, make_loop):
        def flood(prompt_tokens, max_tokens, *, visitors=("quiet",), **values):
            loop = make_fair(make_loop, max_num_batched_tokens=64, **values)
            for visitor in visitors:
                loop.submit(f"{visitor}-before", 4, max_tokens=1, tenant=visitor)
            loop.drain()
            for number in range(40):
                loop.submit(f"flood{number}", prompt_tokens, max_tokens, tenant="flood")
            while loop.scheduler.tenants.service("flood") < 400:
                loop.step()
            return loop

        return flood

    def test_its_prompt_is_computed_before_one_that_is_under_way(self, flooded):
        loop = flooded(300, 1)
        loop.submit("question", 100, tenant="quiet")
        assert list(loop.step().items()) == [("question", 64)]
        assert next(iter(loop.step().items())) == ("question", 36)

    def test_while_it_is_away_the_others_prompts_leave_steps_short(self, flooded):
        loop = flooded(300, 1)
        plan = loop.plan()
        assert plan.num_prefill_tokens == 64 // YIELDING_SHARE
        assert plan.hold is Hold.YIELD

    def test_who_has_not_asked_for_a_while_is_reckoned_with_no_more(self, flooded):
        loop = flooded(300, 1)
        loop.now_s += Tenants.AROUND_S + 1
        assert sum(loop.step().values()) == 64

    def test_a_tenant_alone_has_the_whole_engine(self, flooded):
        loop = flooded(300, 1, visitors=())
        assert sum(loop.step().values()) == 64

    def test_it_takes_half_of_the_slots_for_what_may_take_longer_than_it_is_behind(self, flooded):
        loop = flooded(4, 400, max_num_seqs=6)
        for number in range(6):
            loop.submit(f"question{number}", 4, max_tokens=200, tenant="quiet")
        loop.steps(8)
        assert loop.scheduler.tenants.running == {"quiet": 3, "flood": 3}
        assert {e.request_id[:5] for e in loop.events if isinstance(e, Preempted)} == {"flood"}

    def test_it_takes_more_of_them_as_long_as_all_that_it_runs_leaves_it_behind(self, flooded):
        """Each of these is charged 4 + 2 * 36 at most, and it is 400 behind."""
        loop = flooded(4, 400, max_num_seqs=6)
        for number in range(6):
            loop.submit(f"question{number}", 4, max_tokens=36, tenant="quiet")
        loop.steps(8)
        assert loop.scheduler.tenants.running == {"quiet": 5, "flood": 1}

    def test_by_weight_it_takes_more_of_them(self, flooded):
        loop = flooded(4, 400, max_num_seqs=6)
        loop.scheduler.set_contract(Contract({"quiet": Terms(weight=2.0)}))
        for number in range(6):
            loop.submit(f"question{number}", 4, max_tokens=200, tenant="quiet")
        loop.steps(8)
        assert loop.scheduler.tenants.running == {"quiet": 4, "flood": 2}

    def test_it_takes_all_the_blocks_that_its_prompt_needs_in_one_step(self, flooded):
        loop = flooded(8, 60, max_num_seqs=8, num_blocks=64, enable_prefix_caching=False)
        while loop.snapshot.free_blocks > 8:
            loop.step()
        loop.submit("document", 100, tenant="quiet")
        steps = 0
        while loop.requests["document"].first_scheduled_s is None:
            loop.step()
            steps += 1
        assert steps <= 2
        loop.drain()

    def test_two_that_keep_the_engine_busy_do_not_preempt_each_other_for_nothing(self, make_loop):
        loop = make_fair(make_loop, max_num_seqs=8, max_model_len=256)
        for number in range(60):
            for tenant in ("a", "b"):
                loop.submit(f"{tenant}{number}", 12, max_tokens=20, tenant=tenant)
        loop.steps(150)
        assert loop.snapshot.preemptions_total == 0


class TestLeastServed:
    def test_equals_keep_their_order_whatever_their_names(self):
        least = LeastServed({"z": 1.0, "a": 1.0}.__getitem__)
        least.put("z")
        least.put("a")
        assert least.least() == "z"

    def test_whoever_was_served_since_moves_down(self):
        service = {"a": 1.0, "b": 2.0}
        least = LeastServed(service.__getitem__)
        least.put("a")
        least.put("b")
        service["a"] = 3.0
        assert least.least() == "b"
        least.drop("b")
        assert least.least() == "a"

    def test_those_who_left_are_swept_out(self):
        least = LeastServed(lambda _: 0.0)
        for number in range(10_000):
            least.put(f"t{number}")
            least.drop(f"t{number}")
        assert least.least() is None
        assert len(least._heap) < 100
