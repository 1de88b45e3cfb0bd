"""The paper's datasets that are answered in text: mathematics, reading, and the six beyond its domains."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sigma_lab.collect.releases.draft import PARQUET, Draft, Release, Row, labels, lettered, parsed_rows
from sigma_mem.streams.jsonl import read_file
from sigma_mem.streams.stream import chance


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


def squad(row: Row) -> Iterator[Draft]:
    """A context with its questions, a question with its context, or an article of the original release."""
    for paragraph in row.get("paragraphs", [row]):
        for asked in paragraph.get("qas", [paragraph]):
            answers = asked["answers"] if "answers" in asked else [asked["answer"]]
            if answers:  # version 2 has questions without any
                yield Draft(asked["question"], _texts(answers), context=paragraph["context"])


def _texts(answers: Any) -> tuple[str, ...]:
    texts = (
        answers["text"]
        if isinstance(answers, dict)
        else [a["text"] if isinstance(a, dict) else a for a in answers]
    )
    return tuple(dict.fromkeys(texts))


def hotpotqa(row: Row) -> Iterator[Draft]:
    """Ten paragraphs, two of which are needed; the original release or the subset that came with IRCoT."""
    if "answers_objects" in row:
        paragraphs = [(p["title"], p["paragraph_text"]) for p in row["contexts"]]
        answers = tuple(span for found in row["answers_objects"] for span in found["spans"])
        yield Draft(row["question_text"], answers, key=row["question_id"], context=_titled(paragraphs))
        return
    given, key = row["context"], row.get("_id") or row["id"]
    pairs = zip(given["title"], given["sentences"], strict=True) if isinstance(given, dict) else given
    context = _titled((title, "".join(sentences)) for title, sentences in pairs)
    yield Draft(row["question"], (row["answer"],), key=key, context=context)


def hotpotqa_closed(row: Row) -> Iterator[Draft]:
    """Question and answer alone."""
    yield Draft(row["question"], (row["answer"],), kind=row["type"])


def triviaqa(row: Row) -> Iterator[Draft]:
    """Aliases of the answer; with contexts only in the release for reading comprehension."""
    if "golden_answers" in row:
        yield Draft(_unquoted(row["question"]), tuple(row["golden_answers"]), key=row["id"])
        return
    found = row["answer"]
    aliases = dict.fromkeys([found["value"], *found["aliases"]])
    pages, hits = row.get("entity_pages") or {}, row.get("search_results") or {}
    paragraphs = [*zip(pages.get("title", []), pages.get("wiki_context", []), strict=False)]
    paragraphs += zip(hits.get("title", []), hits.get("search_context", []), strict=False)
    context = _titled((title, text[:_LONGEST]) for title, text in paragraphs[:_PAGES])
    yield Draft(row["question"], tuple(aliases), key=row["question_id"], context=context)


_PAGES, _LONGEST = 3, 6000  # of TriviaQA's pages, which can be whole articles: characters of each


def _unquoted(question: str) -> str:
    """Undo the quotes of a CSV file that some records still have."""
    quoted = question.startswith('"') and question.endswith('"') and '""' in question
    return question[1:-1].replace('""', '"') if quoted else question


def _titled(paragraphs: Iterable[tuple[str, str]]) -> str:
    return "\n\n".join(f"{title}: {text.strip()}" for title, text in paragraphs)


_DEV = ("rag", "dev", "span")
_HOTPOT = ("hotpotqa/hotpot_dev_distractor_v1.json", "hotpotqa/dev_subsampled.jsonl")


YES_NO = labels("yes", "no")


def piqa(row: Row) -> Iterator[Draft]:
    """A goal and two ways to it."""
    question = f"Goal: {row['goal'].strip()}\nWhich solution is better?"
    yield Draft(question, ("AB"[int(row["label"])],), choices=lettered([row["sol1"], row["sol2"]]))


def piqa_rows(file: Path) -> Iterable[Row]:
    """The labels are in a file next to the records."""
    beside = file.with_name(f"{file.stem}-labels.lst")
    rows, given = list(parsed_rows(file)), read_file(beside).decode().split()
    return [{**row, "label": label} for row, label in zip(rows, given, strict=True)]


def mmlu(row: Row) -> Iterator[Draft]:
    """Four options; 57 subjects."""
    answer = row["answer"] if isinstance(row["answer"], str) else "ABCD"[row["answer"]]
    yield Draft(row["question"], (answer,), kind=row["subject"], choices=lettered(row["choices"]))


def mmlu_rows(file: Path) -> Iterable[Row]:
    """CSV without a header; the subject is the file's name."""
    for question, *choices, answer in csv.reader(io.StringIO(read_file(file).decode(), newline="")):
        yield {
            "question": question,
            "choices": choices,
            "answer": answer,
            "subject": file.stem.rpartition("_")[0],
        }


_OPTION = re.compile(r"\(([A-Z])\)\s*")


def openbookqa(row: Row) -> Iterator[Draft]:
    """A stem and four ends of it."""
    if "Choices" in row:
        texts: Sequence[str] = _OPTION.split(row["Choices"])[2::2]
        yield Draft(row["Question Stem"], (row["Answer Key"],), key=row["ID"], choices=lettered(texts))
    else:
        texts = row["choices"]["text"]
        yield Draft(row["question_stem"], (row["answerKey"],), key=row["id"], choices=lettered(texts))


def tab_separated(file: Path) -> Iterable[Row]:
    """A table with a header."""
    text = io.StringIO(read_file(file).decode(), newline="")
    return csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)


def sciq(row: Row) -> Iterator[Draft]:
    """Four options in an order drawn by the question; free text if the distractors are missing."""
    question, answer = row["question"], row.get("correct_answer") or row["answer"]
    wrong = [row[f"distractor{n}"] for n in (1, 2, 3) if row.get(f"distractor{n}")]
    if not wrong:
        yield Draft(question, (answer,), grader="span")
        return
    choices = lettered(sorted([answer, *wrong], key=lambda text: chance(0, question, text)))
    right = next(label for label, text in choices if text == answer.strip())
    yield Draft(question, (right,), choices=choices)


# --- BIG-Bench Hard ---

_LISTED = re.compile(r"^\(([A-Z])\) ?(.*)$", re.MULTILINE)
_BBH_FORMS = {
    "multistep_arithmetic_two": ("number", ()),
    "object_counting": ("number", ()),
    "word_sorting": ("words", ()),
    "dyck_languages": ("brackets", ()),
    "boolean_expressions": ("label", labels("True", "False")),
    "formal_fallacies": ("label", labels("valid", "invalid")),
    **dict.fromkeys(
        ["causal_judgement", "navigate", "sports_understanding", "web_of_lies"], ("label", YES_NO)
    ),
}


def bbh(row: Row) -> Iterator[Draft]:
    """27 tasks, each with its own form of answer; unless stated above, options have letters."""
    task, (asked, _, options) = row["subset"], row["input"].partition("\nOptions:\n")
    target = row["target"].strip()
    grader, choices = _BBH_FORMS.get(task, ("choice", tuple(_LISTED.findall(options))))
    if not choices:
        yield Draft(asked, (target,), kind=task, grader=grader)
        return
    right = [label for label, _ in choices if label.lower() == target.strip("()").lower()]
    if right:
        yield Draft(asked, (right[0],), kind=task, grader=grader, choices=choices)
    else:  # a few options were cut at a comma ("(A) Monsters (B) Inc"), and the target is the whole name
        yield Draft(row["input"], (target,), kind=task, grader="span")


def bbh_rows(file: Path) -> Iterable[Row]:
    """The task is the file's name."""
    return [{**row, "subset": file.stem} for row in next(iter(parsed_rows(file)))["examples"]]


# --- SuperGLUE ---


_GLUE: dict[str, tuple[tuple[str, ...], str]] = {
    "wic": (("yes", "no"), 'Does "{word}" mean the same in both sentences?\n1. {sentence1}\n2. {sentence2}'),
    "rte": (
        ("entailment", "not_entailment"),
        "Premise: {premise}\nHypothesis: {hypothesis}\nWhich holds, entailment or not_entailment?",
    ),
    "cb": (
        ("entailment", "contradiction", "neutral"),
        "Premise: {premise}\nHypothesis: {hypothesis}\nWhich holds, entailment, contradiction or neutral?",
    ),
    "copa": (("A", "B"), "{premise}\nWhat was the {question} of this?"),
    "wsc": (("yes", "no"), '{text}\nIn this text, does "{span2_text}" stand for "{span1_text}"?'),
}


def superglue(row: Row) -> Iterator[Draft]:
    """Six tasks; MultiRC counts answer options."""
    subset = row["subset"].lower()
    if subset == "multirc":
        yield from _multirc(row)
        return
    names, text = _GLUE[subset]
    answer = (_superglue_label(row["label"], names),)
    options = lettered([row["choice1"], row["choice2"]]) if subset == "copa" else labels(*names)
    grader = "choice" if subset == "copa" else "label"
    question = text.format_map({**row, **row.get("target", {})})
    yield Draft(question, answer, key=str(row["idx"]), kind=subset, grader=grader, choices=options)


def _superglue_label(label: object, names: tuple[str, ...]) -> str:
    """Words, numbers, or true and false; the hub numbers "no" before "yes"."""
    if isinstance(label, str):
        return names[names.index(label)]
    return names[1 - int(bool(label))] if names == ("yes", "no") else names[int(str(label))]


def _multirc(row: Row) -> Iterator[Draft]:
    if "passage" not in row:  # the hub has one row per answer option
        key = "-".join(str(row["idx"][part]) for part in ("paragraph", "question", "answer"))
        yield _option(row["paragraph"], row["question"], row["answer"], row["label"], key)
        return
    for question in row["passage"]["questions"]:
        for answer in question["answers"]:
            key = f"{row['idx']}-{question['idx']}-{answer['idx']}"
            yield _option(row["passage"]["text"], question["question"], answer["text"], answer["label"], key)


def _option(passage: str, question: str, answer: str, label: object, key: str) -> Draft:
    text = (
        f"{passage.strip()}\n\nQuestion: {question.strip()}\nProposed answer: {answer.strip()}\nIs it right?"
    )
    return Draft(text, ("yes" if label else "no",), key=key, kind="multirc", grader="label", choices=YES_NO)


def superglue_rows(file: Path) -> Iterable[Row]:
    """The subset is the folder's name."""
    return [{**row, "subset": file.parent.name} for row in parsed_rows(file)]


_BBH_TASKS = """
boolean_expressions causal_judgement date_understanding disambiguation_qa dyck_languages formal_fallacies
geometric_shapes hyperbaton logical_deduction_five_objects logical_deduction_seven_objects
logical_deduction_three_objects movie_recommendation multistep_arithmetic_two navigate object_counting
penguins_in_a_table reasoning_about_colored_objects ruin_names salient_translation_error_detection snarks
sports_understanding temporal_sequences tracking_shuffled_objects_five_objects
tracking_shuffled_objects_seven_objects tracking_shuffled_objects_three_objects web_of_lies word_sorting
"""

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
    Release("squad", "rag", "train", "span", ("squad/train*.json",), squad,
            hub=("rajpurkar/squad", "train", ("plain_text",))),
    Release("hotpotqa", *_DEV, _HOTPOT, hotpotqa,
            hub=("hotpotqa/hotpot_qa", "validation", ("distractor",))),
    Release("hotpotqa-closed", *_DEV, ("hotpotqa/dev_simplified.json",), hotpotqa_closed),
    Release("triviaqa", "rag", "test", "span", ("triviaqa/*.jsonl",), triviaqa,
            hub=("mandarjoshi/trivia_qa", "validation", ("rc",))),
    Release("piqa", "commonsense", "validation", "choice", ("piqa/valid.jsonl",), piqa, piqa_rows,
            ("ybisk/piqa", "validation", ("plain_text",)), revision=PARQUET),
    Release("mmlu", "knowledge", "validation", "choice", ("mmlu-val/*_val.csv", "mmlu/*_val.csv"), mmlu,
            mmlu_rows, ("cais/mmlu", "validation", ("all",)), subsets=True),
    Release("openbookqa", "science", "test", "choice", ("openbookqa/test.tsv",), openbookqa, tab_separated,
            ("allenai/openbookqa", "test", ("main",))),
    Release("sciq", "science", "test", "choice", ("sciq/test.json*",), sciq,
            hub=("allenai/sciq", "test", ("default",))),
    Release("bbh", "reasoning", "test", "choice", ("bbh/*.json",), bbh, bbh_rows,
            ("lukaemon/bbh", "test", tuple(_BBH_TASKS.split())), subsets=True),
    Release("superglue", "language", "validation", "label", ("superglue/*/val.jsonl",), superglue,
            superglue_rows, ("aps/super_glue", "validation", (*_GLUE, "multirc")), subsets=True),
)  # fmt: skip
