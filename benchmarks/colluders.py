"""What peers that collude do to `decide` without any label: they give one wrong answer, hidden by some noise.

    python benchmarks/colluders.py STREAM [--honest 6] [--colluders 5] [--noise 0.1 0.2 0.3] [--limit 250]

The stream's answers are letters. A share `noise` of the colluders' answers is random.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from sigma_mem import SigmaMem
from sigma_mem.streams import Stream, load_stream

LETTERS = "ABCDEFGHIJ"


def play(stream: Stream, honest: int, colluders: int, noise: float, limit: int) -> list[float]:
    """How often `decide`, the majority, and the majority of the honest peers are right."""
    rng, order = np.random.default_rng(0), np.random.default_rng(1).permutation(len(stream.events))[:limit]
    peers, ring = list(stream.peers)[:honest], [f"colluder{n}" for n in range(colluders)]
    mem, rows = SigmaMem(peers + ring, seed=0), []
    for event in (stream.events[n] for n in order):
        answers = {peer: event.answers[peer].text for peer in peers if peer in event.answers}
        right = next((event.answers[peer].canon for peer in peers if event.correct.get(peer, -1) > 0), None)
        lie = str(rng.choice([letter for letter in LETTERS if letter != right]))
        for peer in ring:
            answers[peer] = lie if rng.random() > noise else str(rng.choice(list(LETTERS)))
        decision = mem.decide(event.question, answers)
        chosen = decision.canons.get(decision.peer or "")
        rows.append(
            (
                float(chosen is not None and chosen == right),
                majority(decision.canons, decision.canons, right),
                majority(decision.canons, peers, right),
            )
        )
    return [100.0 * mean for mean in np.mean(rows, axis=0)]


def majority(canons: Mapping[str, str | None], among: Iterable[str], right: str | None) -> float:
    """How often the most frequent answer of these is right; ties in expectation."""
    counts = Counter(canon for peer in among if (canon := canons.get(peer)) is not None)
    most = [canon for canon, n in counts.items() if n == max(counts.values())]
    return most.count(right or "") / len(most) if most else 0.0


def main() -> None:
    """Read the arguments, play, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stream")
    parser.add_argument("--honest", type=int, default=6)
    parser.add_argument("--colluders", type=int, default=5)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.1, 0.2, 0.3])
    parser.add_argument("--limit", type=int, default=250)
    given = parser.parse_args()
    stream = load_stream(given.stream)
    print("noise  decide  majority  majority of the honest")
    for noise in given.noise:
        found = play(stream, given.honest, given.colluders, noise, given.limit)
        print(f"{noise:5}  {found[0]:6.1f}  {found[1]:8.1f}  {found[2]:22.1f}", flush=True)


if __name__ == "__main__":
    main()
