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

# The generalist comes first: ties go to whom is listed first, and it is the best to lose a tie to.
PEERS = ("generalist", "calculator", "runner", "reader", "almanac", "guesser")
FAULTY = "calculator"


def team(calculator_version: int = 1) -> dict[str, Agent]:
    """The agents by name; the guesser copies the very calculator of this team."""
    calculator = Calculator(calculator_version)
    return {
        "generalist": Generalist(),
        "calculator": calculator,
        "runner": Runner(),
        "reader": Reader(),
        "almanac": Almanac(),
        "guesser": Guesser(neighbour=calculator),
    }
