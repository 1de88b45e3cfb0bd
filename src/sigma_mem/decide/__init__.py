"""From what the memory says to a choice: pure functions of arrays.

`route` before anyone answers, `vote` over equal answers, `select` with the posterior over
latent correctness, `explore` where only the chosen peer is ever labelled, `adaptive` to choose
among reads. Ties go to the peer listed first.
"""
