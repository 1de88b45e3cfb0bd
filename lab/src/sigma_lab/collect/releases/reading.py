"""SQuAD, HotpotQA and TriviaQA: the context is for peers only."""

from collections.abc import Iterable, Iterator
from typing import Any

from sigma_lab.collect.releases.draft import Draft, Release, Row


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

RELEASES = (
    Release("squad", "rag", "train", "span", ("squad/train*.json",), squad,
            hub=("rajpurkar/squad", "train", ("plain_text",))),
    Release("hotpotqa", *_DEV, _HOTPOT, hotpotqa,
            hub=("hotpotqa/hotpot_qa", "validation", ("distractor",))),
    Release("hotpotqa-closed", *_DEV, ("hotpotqa/dev_simplified.json",), hotpotqa_closed),
    Release("triviaqa", "rag", "test", "span", ("triviaqa/*.jsonl",), triviaqa,
            hub=("mandarjoshi/trivia_qa", "validation", ("rc",))),
)  # fmt: skip
