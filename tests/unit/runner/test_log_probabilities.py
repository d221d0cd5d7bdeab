"""Log probabilities: exact, ranked, and made without a tensor of a prompt times the vocabulary."""

import pytest
import torch

from headrace_engine.runner import logprobs
from headrace_engine.runner.logprobs import successor_logprobs, token_logprobs


def logits_of(seed, rows, vocabulary):
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * 6


def test_each_row_has_its_own_count_of_the_likeliest():
    logits = logits_of(1, 5, 9000)
    told = token_logprobs(logits, [4, 0, 2], [11, 12, 13], [0, 3, 20])
    own = logits.log_softmax(-1)
    for row, token_id, num_top, each in zip((4, 0, 2), (11, 12, 13), (0, 3, 20), told, strict=True):
        assert each.logprob == pytest.approx(float(own[row, token_id]), abs=1e-5)
        assert each.rank == 1 + int((own[row] > own[row, token_id]).sum())
        best = own[row].topk(num_top)
        assert each.top_ids == tuple(best.indices.tolist())
        assert each.top_logprobs == pytest.approx(best.values.tolist(), abs=1e-5)


@pytest.mark.parametrize("others_count", [0, 1, 4, 20])
def test_which_of_the_equally_likely_are_told_does_not_depend_on_what_others_ask(others_count):
    logits = logits_of(6, 40, 9000).bfloat16()
    alone = [token_logprobs(logits, [row], [0], [3])[0] for row in range(40)]
    beside = [token_logprobs(logits, [row, 0], [0, 0], [3, others_count])[0] for row in range(40)]
    assert beside == alone


def test_a_vocabulary_smaller_than_what_is_asked_is_told_whole():
    (told,) = token_logprobs(logits_of(2, 1, 7), [0], [3], [20])
    assert sorted(told.top_ids) == list(range(7))


def test_tied_tokens_share_their_rank():
    (told,) = token_logprobs(torch.tensor([[1.0, 5.0, 5.0, 0.0]]), [0], [2], [0])
    assert told.rank == 1


def test_a_prompt_is_scored_in_slices_of_bounded_size():
    """vLLM: log probabilities of a whole prompt over a whole vocabulary took 62 GiB."""
    vocabulary, length = 32_768, 700
    head = torch.randn(vocabulary, 8, generator=torch.Generator().manual_seed(3))
    hidden = torch.randn(length, 8, generator=torch.Generator().manual_seed(4))
    sizes = []

    def logits(rows):
        sizes.append(len(rows))
        return rows @ head.T

    ids = torch.randint(0, vocabulary, (length,), generator=torch.Generator().manual_seed(5)).tolist()
    told = successor_logprobs(hidden, logits, vocabulary, ids, 2)
    assert max(sizes) * vocabulary * 4 <= logprobs.SLICE_BYTES
    assert sum(sizes) == length
    expected = (hidden @ head.T).log_softmax(-1)[torch.arange(length), torch.tensor(ids)]
    assert [each.logprob for each in told] == pytest.approx(expected.tolist(), abs=1e-4)
