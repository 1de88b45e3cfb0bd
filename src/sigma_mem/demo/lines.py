"""The demo told in plain lines, for a pipe or a file."""

from __future__ import annotations

import numpy as np

from .agents import PEERS
from .story import Story
from .tasks import DOMAINS

__all__ = ["progress_line"]


def progress_line(story: Story) -> str:
    """One line: accuracy so far, and whom the memory trusts most in every domain."""
    league = story.league
    fixed = league.best_peer()
    shares = [f"{read} {league.accuracy(read):5.1%}" for read in ("route", "vote", "decide", "majority")]
    shares.append(f"best fixed ({fixed}) {league.accuracy(fixed):5.1%}")
    probs = story.trust.probs()
    trusted = [
        f"{domain} {PEERS[int(probs[:, d].argmax())]} {probs[:, d].max():.0%}"
        for d, domain in enumerate(DOMAINS)
        if not np.isnan(probs[:, d]).any()
    ]
    return f"task {len(league):5d}  {'  '.join(shares)}  | trusted: {', '.join(trusted)}"
