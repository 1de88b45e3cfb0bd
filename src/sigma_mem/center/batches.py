"""Group rows of unequal length so that little is padded."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def by_length(lengths: Sequence[int], max_tokens: int, slack: float = 1.0) -> list[list[int]]:
    """Indices grouped into batches of similar length.

    Parameters
    ----------
    max_tokens
        No batch is larger with its padding; a longer row is a batch by itself.
    slack
        Largest share of a batch that may be padding. A CPU gains nothing from a batch and pays for
        every padded token; an accelerator prefers fewer, larger batches.

    Examples
    --------
    >>> by_length([5, 2, 9, 3], max_tokens=8)
    [[1, 3], [0], [2]]
    >>> by_length([50, 52, 90], max_tokens=500, slack=0.05)
    [[0, 1], [2]]
    """
    batches: list[list[int]] = []
    real = 0
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        real += lengths[index]
        # Rows come by rising length, so the newest one sets the padded width.
        padded = (len(batches[-1]) + 1) * lengths[index] if batches else 0
        if batches and padded <= max_tokens and padded - real <= slack * padded:
            batches[-1].append(index)
        else:
            batches.append([index])
            real = lengths[index]
    return batches


def pad_ids(rows: Sequence[Sequence[int]], device: torch.device | str) -> Tensor:
    """(n, longest) token ids, padded on the right with 0.

    No mask goes with them: attention is causal, so no real token sees the padding, and a mask derived
    from the pad id would hide real tokens of models whose pad token occurs in their own prompt.
    """
    return pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True).to(device)
