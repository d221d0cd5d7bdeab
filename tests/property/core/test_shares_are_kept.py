"""`min_share`: whatever goes before a tenant, of the tokens computed while it waits it gets its share."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_engine.core.contract import Contract, Terms
from headrace_engine.core.limits import Capacity
from headrace_engine.core.plan import Outcome, Plan
from headrace_engine.core.policies import PolicyName, policy_of
from headrace_engine.core.prefill_rate import PrefillRate
from headrace_engine.core.request import Request, Status
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.core.tenants import Tenants

LONGEST = 64
STEP_S = 0.025


class Flooded:
    """Tenants with shares, of the worst class and past their deadlines, beside a flood of the best."""

    def __init__(self, policy: PolicyName, seed: int, shares: dict[str, float]) -> None:
        self.random = random.Random(seed)
        self.shares = shares
        self.capacity = Capacity(
            max_num_seqs=self.random.randint(1, 6),
            max_num_batched_tokens=self.random.choice([8, 32, 128]),
            max_model_len=LONGEST,
            num_blocks=self.random.randint(16, 64),
            block_size=4,
        )
        items = {tenant: Terms(0.001, min_share=share) for tenant, share in shares.items()}
        self.tenants, rate = Tenants(Contract(items)), PrefillRate()
        self.scheduler = Scheduler(
            capacity=self.capacity,
            policy=policy_of(policy, self.tenants, rate, age_s=1e6),
            tenants=self.tenants,
            prefill_rate=rate,
        )
        self.sizes = {
            tenant: (self.random.randint(1, 40), self.random.randint(1, 20)) for tenant in (*shares, "flood")
        }
        self.number, self.now_s = 0, 0.0
        self.requests: list[Request] = []
        self.ends: dict[str, int] = {}
        self.computed: Counter[str] = Counter()
        """Positions, each once, those found in the cache left out."""

    def keep_waiting(self, count: int) -> None:
        """So many of each tenant, at the least."""
        self.requests = [request for request in self.requests if request.status is not Status.FINISHED]
        waiting = Counter(
            request.tenant
            for request in self.requests
            if request.status in {Status.WAITING, Status.PREEMPTED}
        )
        for tenant in self.sizes:
            for _ in range(count - waiting[tenant]):
                self._submit(tenant)

    def step(self) -> None:
        plan = self.scheduler.schedule(self.now_s)
        sampled = {row.request_id: [7] for row in plan.rows if row.sampled_rows}
        self._count(plan)
        self.now_s += STEP_S
        self.scheduler.commit(plan, Outcome(sampled, STEP_S), self.now_s)

    def _submit(self, tenant: str) -> None:
        most_prompt, most_output = self.sizes[tenant]
        is_flood = tenant == "flood"
        request = Request(
            f"{tenant}-{self.number}",
            tuple(self.random.randrange(10_000) for _ in range(self.random.randint(1, most_prompt))),
            LONGEST if tenant == "a" else most_output,
            0.0 if is_flood else self.now_s,
            tenant=tenant,
            priority=0 if is_flood else 19,
            first_token_deadline_s=None if is_flood else self.now_s - 1.0,
        )
        self.number += 1
        self.requests.append(request)
        assert self.scheduler.submit(request, self.now_s) is None

    def _count(self, plan: Plan) -> None:
        for row in plan.rows:
            end = row.start + len(row.token_ids)
            new = end - max(row.start, self.ends.get(row.request_id, row.start))
            self.computed[row.request_id.rsplit("-", 1)[0]] += max(0, new)
            self.ends[row.request_id] = max(end, self.ends.get(row.request_id, end))

    @property
    def most_behind(self) -> int:
        return (self.capacity.max_num_seqs + len(self.shares) + 2) * LONGEST


@pytest.mark.parametrize("policy", PolicyName)
@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**32),
    shares=st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.05, 0.2, 0.33]), min_size=1),
)
def test_in_every_stretch_a_tenant_that_waits_gets_its_share_less_a_bound(policy, seed, shares):
    flooded = Flooded(policy, seed, shares)
    best: dict[str, float] = dict.fromkeys(shares, 0.0)
    for _ in range(600):
        flooded.keep_waiting(2)
        flooded.step()
        total = flooded.computed.total()
        for tenant, share in shares.items():
            ahead = flooded.computed[tenant] - share * total
            best[tenant] = max(best[tenant], ahead)
            assert best[tenant] - ahead <= flooded.most_behind
