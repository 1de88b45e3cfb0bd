"""GSM8K, MATH-500, AMC23, OlympiadBench and CollegeMath."""

from collections.abc import Iterator

from sigma_lab.collect.releases.draft import Draft, Release, Row


def gsm8k(row: Row) -> Iterator[Draft]:
    """Its answers are worked out and end in ``#### n``."""
    _, mark, answer = row["answer"].rpartition("####")
    if not mark:
        raise ValueError("the answer has no '#### n'")
    yield Draft(row["question"], (answer.strip(),), solution=row["answer"])


def math500(row: Row) -> Iterator[Draft]:
    """Problem, worked solution with a box, answer, subject."""
    yield Draft(row["problem"], (row["answer"],), kind=row["subject"], solution=row["solution"])


def amc23(row: Row) -> Iterator[Draft]:
    """Whole numbers, written as 27.0."""
    yield Draft(row["question"], (f"{float(row['answer']):g}",), key=str(row["id"]))


def olympiadbench(row: Row) -> Iterator[Draft]:
    """One or several final answers in LaTeX; several must all be given."""
    answer = ", ".join(row["final_answer"]).strip()
    yield Draft(row["question"], (answer,), key=str(row["id"]), kind=row["subfield"])


def college_math(row: Row) -> Iterator[Draft]:
    """Exercises of college textbooks with answers in LaTeX or words."""
    yield Draft(row["question"], (row["answer"],), kind=row["data_topic"].removeprefix("college_math."))


_SOLVED = ("mathematics", "test", "math")

RELEASES = (
    Release("gsm8k", "mathematics", "train", "number", ("gsm8k/train.jsonl",), gsm8k,
            hub=("openai/gsm8k", "train", ("main",))),
    Release("math500", *_SOLVED, ("math500/test.jsonl",), math500,
            hub=("HuggingFaceH4/MATH-500", "test", ("default",))),
    Release("amc23", "mathematics", "test", "number", ("amc23/test.jsonl",), amc23,
            hub=("math-ai/amc23", "test", ("default",))),
    Release("olympiadbench", *_SOLVED, ("olympiadbench/test.jsonl",), olympiadbench,
            hub=("Hothan/OlympiadBench", "train", ("OE_TO_maths_en_COMP",))),
    Release("college_math", *_SOLVED, ("college_math/test.jsonl",), college_math),
)  # fmt: skip
