"""Train the dictionary against which bodies of lines are compressed: ``line_dictionary.py FILE``.

Lines of small memories are the samples: routes, votes, adaptive decisions, panels, topics, costs and
feedback, with different pools. A file that was written with one dictionary needs the same one to be read, so
that the one in `sigma_mem.store` is never replaced: a better one gets a number of its own in
`sigma_mem.store.rows`.
"""

import sys
from itertools import count
from pathlib import Path

import numpy as np

from sigma_mem import SigmaMem

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SIZE = 6144  # bytes
POOLS = (
    ("gemma", "phi", "coder"),
    ("gpt-5", "claude-opus", "gemini-pro", "llama-70b", "qwen-72b"),
    ("small", "large"),
    ("agent-1", "agent-2", "agent-3", "agent-4", "agent-5", "agent-6", "agent-7", "agent-8"),
)
QUESTIONS = (
    "What is {} times {}?",
    "How many people live in city {} of country {}?",
    "Write a function that returns {} or {}.",
    "Which of these is correct: (A) {} (B) {}?",
    "Summarize the document about {} and {} in one sentence.",
)
ANSWERS = (
    "{}",
    "The answer is {}.",
    "I think that it is {}, because of what follows.",
    "{} = {}",
    "```\nreturn {}\n```",
)


def samples() -> list[bytes]:
    """Bodies of lines."""
    rng, found = np.random.default_rng(0), []
    for number, peers in enumerate(POOLS):
        for keep_text in (True, False):
            mem = SigmaMem(peers, encoder="hashed", keep_text=keep_text, clock=count(1.8e9, 0.37).__next__)
            if number % 2:
                mem.set_price(peers[0], per_call=0.01)
            for i in range(120):
                play(mem, rng, i)
            found += [record.body for record in mem.store.records("default")]
    return found


def play(mem: SigmaMem, rng: np.random.Generator, i: int) -> None:
    """One event."""
    a, b = rng.integers(100, size=2).tolist()
    question = QUESTIONS[i % len(QUESTIONS)].format(a, b)
    topic = "math" if i % 5 == 0 else None
    right = rng.random(len(mem.peers)) < 0.7
    said = [str(a * b) if ok else str(int(rng.integers(9))) for ok in right.tolist()]
    answers = {
        peer: ANSWERS[(i + j) % len(ANSWERS)].format(text, text)
        for j, (peer, text) in enumerate(zip(mem.peers, said, strict=True))
    }
    if i % 4 == 0:
        decision = mem.route(question, topic=topic, among=list(mem.peers)[:2] if i % 8 == 0 else None)
        mem.served(decision.id, cost=0.01)
    elif i % 4 == 1:
        decision = mem.vote(question, answers, topic=topic)
    elif i % 4 == 2 or topic:
        decision = mem.decide(question, answers, topic=topic)
    else:
        panel = mem.ask(question)
        while panel.next is not None:
            panel.add(panel.next, answers[panel.next])
        decision = panel.decision
    mem.feedback(
        decision.id,
        dict(zip(mem.peers, right.tolist(), strict=True)),
        source="ci" if i % 7 == 0 else "default",
    )


def main() -> None:
    """Write the dictionary."""
    trained = zstd.finalize_dict(zstd.train_dict([*samples()], SIZE), [*samples()], SIZE, 9)
    Path(sys.argv[1]).write_bytes(trained.dict_content)


if __name__ == "__main__":
    main()
