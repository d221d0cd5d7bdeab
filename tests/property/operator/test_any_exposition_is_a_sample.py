"""Whatever numbers a pod puts under the names that are read: no exception, and a status that is taken."""

from hypothesis import given
from hypothesis import strategies as st

from headrace_operator.api.status_resource import ObservedStatus
from headrace_operator.decide.record import observed_document
from headrace_operator.observe.exposition import parse
from headrace_operator.observe.pods import observe_pod
from headrace_operator.observe.sample import sample
from headrace_operator.observe.windows import ServiceWindows
from headrace_operator.runtimes.metric_map import HEADRACE, VLLM

RUNTIMES = st.sampled_from((HEADRACE, VLLM))
EDGES = ("-Inf", "-1", "0", "0.1", "1", "1e300", "+Inf", "NaN", "wide")
VALUES = st.sampled_from(("0", "1", "7", "1e9", "1.7e308", "NaN", "-1"))
POD = {"metadata": {"name": "p", "uid": "p", "creationTimestamp": "2027-01-01T00:00:00Z"}, "status": {}}
START_S = 1_800_000_000.0


@st.composite
def pages(draw, names):
    """Series of a few families, in parts or whole, some of them twice."""
    lines = []
    for name in draw(st.lists(st.sampled_from(sorted(names)), max_size=6)):
        label = draw(st.sampled_from(EDGES)) if name.endswith("_bucket") else draw(st.sampled_from("ab"))
        lines.append(f'{name}{{le="{label}"}} {draw(VALUES)}')
    return "\n".join(lines).encode()


@given(RUNTIMES, st.data())
def test_it_is_read_and_told(metrics, data):
    distribution = data.draw(st.sampled_from(sorted(metrics.distributions.values())))
    of_one = {f"{distribution}_{part}" for part in ("bucket", "sum", "count")}
    names = data.draw(st.sampled_from((of_one, metrics.wanted)))
    windows = ServiceWindows()
    for at_s in (START_S, START_S + 2, START_S + 4):
        raw = sample(parse(data.draw(pages(names)), wanted=metrics.wanted), metrics=metrics, at_s=at_s)
        windows.record("p", raw, longest_break_s=60.0, retention_s=60.0)
    window = windows.window(start_s=START_S, now_s=START_S + 4, ready_uids=("p",), fresh_s=6.0)
    ObservedStatus.model_validate(observed_document(window, None))
    observe_pod(POD, windows.latest("p"))
