"""The loop: route, let everybody answer, vote, grade, and tell the memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sigma_mem.memory import Settings
from sigma_mem.session import SigmaMem

from .agents import team
from .step import Step
from .tasks import Task, is_right

__all__ = ["SETTINGS", "play"]

# A short memory, for a short stream with a sudden change: half of what is known fades within 69 events.
SETTINGS = Settings(gamma=0.99, gamma_g=0.99, eta_g=0.01)


def play(mem: SigmaMem, tasks: Sequence[Task], fault_at: int) -> Iterator[Step]:
    """Work through the tasks; after task `fault_at` the calculator is updated to its faulty version.

    Every task is one event of the memory: routed before anyone answers, voted on, decided
    adaptively, then graded. The memory sees the question and the answers, and afterwards the grades.
    """
    agents = team(calculator_version=1)
    for number, task in enumerate(tasks, start=1):
        if number == fault_at + 1:
            agents = team(calculator_version=2)
        routed = mem.route(task.question)
        answers = {peer: agent.answer(task.question) for peer, agent in agents.items()}
        given = {peer: answer or None for peer, answer in answers.items()}
        voted = mem.vote(task.question, given, after=routed.id)
        decided = mem.decide(task.question, given, after=routed.id)
        right = {peer: is_right(task, answer) for peer, answer in answers.items()}
        mem.feedback(voted.id, right, source="grader")
        chosen = {"route": routed.peer, "vote": voted.peer, "decide": decided.peer}
        chosen["majority"] = decided.reads["majority"]
        yield Step(number, task, answers, right, chosen, routed.probs, routed.effective, routed.id)
