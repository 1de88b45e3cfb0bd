"""DSPy: a program that learns which of two models to run on."""

import dspy
from dspy.utils import DummyLM  # offline; for real dspy.LM("openai/…")

from sigma_mem import SigmaMem
from sigma_mem.integrations.chooser import Chooser

lms = {name: DummyLM([{"answer": text}] * 60) for name, text in {"careless": "41", "careful": "42"}.items()}
program = dspy.Predict("question -> answer")


def run_on(peer, question):
    with dspy.context(lm=lms[peer]):
        return program(question=question)


with SigmaMem(list(lms), path="memory.db", seed=0) as memory:  # or the URL of a service
    chooser, right = Chooser(memory), []
    for asked in (f"Task {number}: what is 6 times 7?" for number in range(60)):
        answer, pick = chooser.call(chooser.choose(asked, lms), lambda peer, asked=asked: run_on(peer, asked))
        right.append(answer.answer == "42")  # for real the metric that you optimize with
        chooser.feedback(pick.ref, right[-1])  # now, or much later, from anywhere
print(f"right: {sum(right)} of 60, {sum(right[-20:])} of the last 20")
