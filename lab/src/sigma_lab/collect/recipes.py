"""The paper's three collections of questions: what it trains on, attacks, and generalises to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """How many questions of a dataset a recipe draws, and of which split ("" for all)."""

    dataset: str
    size: int
    split: str = ""


# If the paper gives only a domain's total, the datasets get equal shares of it, except for AMC23, of which
# all 40 are taken, and HotpotQA, of which the common subset with contexts has 500.
RECIPES: dict[str, tuple[Part, ...]] = {
    "paper-train": (Part("gsm8k", 1000), Part("squad", 1000), Part("apps", 963)),
    "paper-cf": (
        Part("math500", 392), Part("amc23", 40), Part("olympiadbench", 392), Part("college_math", 392),
        Part("hotpotqa", 500), Part("triviaqa", 575),
        Part("humaneval", 132), Part("mbpp", 131, "test"), Part("livecodebench", 131),
    ),
    "paper-ood": (
        Part("piqa", 1838), Part("mmlu", 1531), Part("openbookqa", 500), Part("sciq", 1000),
        Part("bbh", 6511), Part("superglue", 6023),
    ),
}  # fmt: skip
