"""What every adapter must do, with the real framework and offline models.

A test of an adapter derives from `AdapterContract` and says how its framework is called.
"""

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sigma_mem import SigmaMem

RIGHT, WRONG = "the right answer", "a wrong answer"
EXAMPLES = Path(__file__).parents[2] / "examples" / "integrations"
ANSWERS = {"good": RIGHT, "bad": WRONG, "broken": None}  # None: the call fails


def asked(number):
    return f"What is {number} plus {number}?"


def last_right(program, folder):
    """Run an example; how many of its last 20 answers were right."""
    command = [sys.executable, str(program)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    found = re.search(r"(\d+) of the last 20", done.stdout)
    assert found, done.stdout
    return int(found[1])


class AdapterContract:
    """Subclasses have an `example`, `build(memory, peers)`, `bare()`, `ask` and `stream`."""

    example: str

    def build(self, memory, peers):
        """What `ask` calls: the framework's agent with these peers, and the adapter's `feedback`."""
        raise NotImplementedError

    def bare(self):
        """The same without the adapter, with the good model alone."""
        raise NotImplementedError

    async def ask(self, agent, question, ref):
        """The answer, and what names the event: `ref`, or what the framework says."""
        raise NotImplementedError

    async def stream(self, agent, question, ref):
        """The texts that came, one after the other, and what names the event."""
        raise NotImplementedError

    def test_the_right_peer_gets_most_of_the_last_calls(self):
        with SigmaMem(["bad", "good"], seed=0) as mem:  # the first draw is the bad one
            agent, feedback = self.build(mem, ["bad", "good"])

            async def learn():
                served = []
                for number in range(60):
                    answer, ref = await self.ask(agent, asked(number), f"run-{number}")
                    feedback(ref, answer == RIGHT)
                    served.append(answer)
                return served

            served = asyncio.run(learn())
            assert served[-20:].count(RIGHT) >= 16
            assert WRONG in served[:20]  # both were tried

    def test_feedback_after_a_restart_counts(self, tmp_path):
        with SigmaMem(["good", "bad"], path=tmp_path / "memory.db", seed=1) as mem:
            agent, _ = self.build(mem, ["good", "bad"])
            answer, ref = asyncio.run(self.ask(agent, asked(1), "run-1"))
        with SigmaMem(path=tmp_path / "memory.db") as mem:
            _, feedback = self.build(mem, ["good", "bad"])
            feedback(ref, answer == RIGHT)
            feedback(ref, answer == RIGHT)
            labels = mem.decision(ref).labels
            assert labels == {"good": 1.0} if answer == RIGHT else {"bad": -1.0}
            assert mem.events == 1

    @pytest.mark.parametrize("way", ["ask", "stream"])
    def test_a_failing_peer_is_passed_over_and_not_labelled(self, way):
        with SigmaMem(["broken", "good"], seed=1) as mem:
            agent, feedback = self.build(mem, ["broken", "good"])

            async def work():
                refs = []
                for number in range(8):
                    answer, ref = await getattr(self, way)(agent, asked(number), f"run-{number}")
                    assert "".join(answer) == RIGHT
                    refs.append(ref)
                return refs

            for ref in asyncio.run(work()):
                feedback(ref, True)
                decision = mem.decision(ref)
                assert (decision.served or decision.peer) == "good"
                assert decision.labels == {"good": 1.0}
            assert "broken" in {decision.peer for decision in mem.decisions()}  # it was chosen, and failed

    def test_an_error_surfaces_once_nobody_is_left(self):
        with SigmaMem(["broken"], seed=1) as mem:
            agent, _ = self.build(mem, ["broken"])
            with pytest.raises(Exception, match="no route to the model"):
                asyncio.run(self.ask(agent, asked(1), "run-1"))
            assert next(iter(mem.decisions())).labels == {}

    def test_a_stream_comes_piece_by_piece(self):
        with SigmaMem(["good"], seed=1) as mem:
            agent, feedback = self.build(mem, ["good"])
            pieces, ref = asyncio.run(self.stream(agent, asked(1), "run-1"))
            assert len(pieces) > 1
            assert "".join(pieces) == RIGHT
            feedback(ref, True)
            assert mem.decision(ref).labels == {"good": 1.0}

    def test_fifty_concurrent_calls_lose_nothing(self, tmp_path):
        with SigmaMem(["bad", "good"], path=tmp_path / "memory.db", seed=1) as mem:
            agent, feedback = self.build(mem, ["bad", "good"])

            async def together():
                return await asyncio.gather(*(self.ask(agent, asked(n), f"run-{n}") for n in range(50)))

            answers = asyncio.run(together())
            assert mem.events == len({ref for _, ref in answers}) == 50
            for answer, ref in answers:
                feedback(ref, answer == RIGHT)
            labels = [mem.decision(ref).labels for _, ref in answers]
            assert labels == [{"good": 1.0} if answer == RIGHT else {"bad": -1.0} for answer, _ in answers]

    @pytest.mark.skipif("SIGMA_MEM_OVERHEAD" not in os.environ, reason="a timing: make test-integrations")
    def test_a_call_takes_at_most_two_milliseconds_more(self, tmp_path, capsys):
        """Processor time of the caller's thread in 200 pairs of calls, with the adapter and without.

        The median of what the two of a pair differ by. The memory writes its file in another thread, for
        which no call waits. A busy machine makes every instruction slower: the best of three rounds counts.
        """
        with SigmaMem(["bad", "good"], path=tmp_path / "memory.db", seed=1) as mem:
            agents = {"with": self.build(mem, ["bad", "good"])[0], "bare": self.bare()}

            async def measure(round):
                differences = []
                for number in range(200):
                    taken = {}
                    for name in sorted(agents, reverse=bool(number % 2)):
                        started = time.thread_time()
                        await self.ask(agents[name], asked(number), f"{name}-{round}-{number}")
                        taken[name] = time.thread_time() - started
                    differences.append(1e3 * (taken["with"] - taken["bare"]))
                return np.percentile(differences, [50, 25, 75])

            rounds = []
            while len(rounds) < 3 and not any(median <= 2.0 for median, _, _ in rounds):
                rounds.append(asyncio.run(measure(len(rounds))))
            median, low, high = min(rounds, key=lambda found: found[0])
            figures = f"{median:.2f} ms of processor time more ({low:.2f} to {high:.2f} in half of the calls)"
            with capsys.disabled():
                print(f"\n{self.example}: {figures}")
            assert median <= 2.0, figures

    def test_the_example_learns_in_at_most_25_lines(self, tmp_path):
        program = EXAMPLES / f"with_{self.example}.py"
        assert sum(bool(line.strip()) for line in program.read_text(encoding="utf-8").splitlines()) <= 25
        assert last_right(program, tmp_path) >= 16
