"""A small made-up stream in which peers differ by domain."""

import numpy as np

from sigma_mem.encode.base import unit
from sigma_mem.events import Answer, Event, FloatArray
from sigma_mem.streams import Stream


def made_up(n: int = 240, n_peers: int = 4, seed: int = 0) -> tuple[Stream, FloatArray]:
    """Peer p is strong in domain p mod 3; canons agree among right peers, and often among wrong ones."""
    rng = np.random.default_rng(seed)
    peers = tuple(f"peer{p}" for p in range(n_peers))
    events, phis = [], []
    for t in range(n):
        domain = int(rng.integers(3))
        right = rng.random(n_peers) < np.where(np.arange(n_peers) % 3 == domain, 0.8, 0.35)
        wrong = rng.choice(["x", "y", "z"], size=n_peers)
        canons = [
            None if rng.random() < 0.05 and not r else "ok" if r else w
            for r, w in zip(right, wrong, strict=True)
        ]
        events.append(
            Event(
                id=f"e{t}",
                question=f"question {t} about kind{domain} kind{domain}",
                answers={p: Answer(f"answer {c}", c) for p, c in zip(peers, canons, strict=True)},
                correct={p: 1.0 if r else -1.0 for p, r in zip(peers, right, strict=True)},
                domain=f"d{domain}",
                dataset="made-up",
            )
        )
        phi = np.full(8, 0.1)
        phi[domain] = 1.0
        phis.append(phi + 0.1 * np.abs(rng.normal(size=8)))
    return Stream("made-up", peers, tuple(events)), unit(np.array(phis))
