from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.center.batches import by_length, pad_ids


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 120), st.floats(0, 1))
def test_every_row_is_in_one_batch_that_fits(lengths: list[int], max_tokens: int, slack: float) -> None:
    batches = by_length(lengths, max_tokens, slack)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        padded, real = len(batch) * max(lengths[i] for i in batch), sum(lengths[i] for i in batch)
        assert len(batch) == 1 or (padded <= max_tokens and padded - real <= slack * padded)


def test_rows_are_padded_on_the_right() -> None:
    assert pad_ids([[5, 6], [7]], "cpu").tolist() == [[5, 6], [7, 0]]
