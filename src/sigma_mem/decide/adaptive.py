"""The adaptive read: the reads are the peers of a second, small Σ memory.

Reads agree on most events, so their rates of being right differ by little and share most of their noise:
the largest rate is often not the best read. The events that only one of two reads got right tell them apart.
So a read is labelled only where it differs from the first one (a duel), and p̂ becomes the probability that
it wins. The first read keeps its place until another wins more than half of their duels at φ, by a margin.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sigma_mem.decide.read import NOBODY, Outcome, Reads, View
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings

_STRENGTH = 40.0  # prior strength of a read's overall rate at a φ where little was seen, in duels
_MARGIN = 0.04
_EVEN = 1e9  # prior strength of an even chance: reads start level, whatever the others do


def settings_over_reads(settings: Settings) -> Settings:
    """Settings of the memory over reads, for a memory with these."""
    one = (settings.gamma,)
    return replace(
        settings,
        prior=0.5,
        prior_labels=_EVEN,
        strength=_STRENGTH,
        horizons=one,
        agreement=False,
        regression=False,
    )


def duels(c: FloatArray) -> FloatArray:
    """Labels of the reads, relative to the first one; NaN where they were equally right.

    Parameters
    ----------
    c : array (..., reads)
        How right the answer was that each read chose, NaN where that is not known.

    >>> duels(np.array([-1.0, -1.0, 1.0, np.nan])).tolist()
    [nan, nan, 1.0, nan]
    """
    lead = c - c[..., :1]
    out: FloatArray = np.where(lead == 0.0, np.nan, np.minimum(np.maximum(lead, -1.0), 1.0))
    return out


def adaptive(prob: FloatArray, available: Sequence[int]) -> int:
    """The available read that wins its duels with the first one most surely; the first one if none does.

    Parameters
    ----------
    prob : array (reads,)
        p̂ of the memory over reads at φ.
    available : sequence of int
        Indices of the reads that could be made for this event.

    Examples
    --------
    >>> adaptive(np.array([0.5, 0.53, 0.5]), [0, 1, 2])
    0
    >>> adaptive(np.array([0.5, 0.51, 0.6]), [0, 1, 2])
    2
    """
    chances = prob.tolist()
    best = max(available, key=lambda read: (chances[read] if read else 0.0, -read))
    return best if chances[best] > 0.5 + _MARGIN else 0


def best_read(reads: Reads, view: View, prob: FloatArray) -> Outcome:
    """Make every read that is available, and decide by the one that the memory over reads prefers.

    Where no answer can be read nobody is chosen, whatever the routes among the reads would do.

    Parameters
    ----------
    prob : array (reads,)
        p̂ of the memory over reads at φ.
    """
    available = reads.available(view)
    choices = {read.name: read.choose(view) for read in available}
    best = reads[reads.names[adaptive(prob, [reads.names.index(name) for name in choices])]]
    chosen = choices[best.name]
    if max(view.groups.tolist()) < 0:
        chosen = chosen._replace(peer=NOBODY)
    return Outcome(
        f"adaptive:{best.name}",
        chosen.peer,
        best.sure(view, chosen),
        choices=choices,
        used_text=best.uses_text_features,
    )
