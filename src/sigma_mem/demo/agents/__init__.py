"""Six agents with different skills and shared blind spots; each is a real little program."""

from __future__ import annotations

from .agent import Agent
from .almanac import Almanac
from .calculator import Calculator
from .generalist import Generalist
from .guesser import Guesser
from .reader import Reader
from .runner import Runner

__all__ = [
    "FAULTY",
    "PEERS",
    "Agent",
    "Almanac",
    "Calculator",
    "Generalist",
    "Guesser",
    "Reader",
    "Runner",
    "team",
]

PEERS = ("calculator", "runner", "reader", "almanac", "generalist", "guesser")
FAULTY = "calculator"


def team(calculator_version: int = 1) -> dict[str, Agent]:
    """The agents by name; the guesser copies the very calculator and generalist of this team."""
    calculator, generalist = Calculator(calculator_version), Generalist()
    return {
        "calculator": calculator,
        "runner": Runner(),
        "reader": Reader(),
        "almanac": Almanac(),
        "generalist": generalist,
        "guesser": Guesser(sums=calculator, other=generalist),
    }
