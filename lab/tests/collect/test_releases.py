import base64
import json
import os
import pickle
import sys
import zlib
from collections import Counter
from types import SimpleNamespace

import pytest

from sigma_lab.collect.question_sets import build_questions
from sigma_lab.collect.releases import RELEASES
from sigma_mem.errors import InputError, MissingExtraError

from .conftest import FIXTURES

SIZES = {
    "gsm8k": 7473, "squad": 4000, "math500": 500, "amc23": 40, "olympiadbench": 675, "college_math": 2818,
    "hotpotqa": 500, "hotpotqa-closed": 7405, "triviaqa": 1000, "humaneval": 164, "mbpp": 974,
    "mbpp-sanitized": 427, "piqa": 1838, "mmlu": 1531, "openbookqa": 500, "sciq": 1000, "bbh": 6511,
    "superglue": 6023,
}  # fmt: skip
SUPERGLUE = {"wic": 638, "rte": 277, "cb": 56, "copa": 100, "wsc": 104, "multirc": 4848}


def test_the_original_files_give_the_published_counts(raw):
    counts = {}
    for name in SIZES:
        questions = build_questions([name], raw).questions
        counts[name] = len({question.id for question in questions})
        assert all(question.reference.answers or question.reference.tests for question in questions), name
        if name == "superglue":
            assert Counter(question.kind for question in questions) == SUPERGLUE
        if name in ("bbh", "mmlu"):
            assert len({question.kind for question in questions}) == {"bbh": 27, "mmlu": 57}[name]
    assert counts == SIZES


@pytest.mark.parametrize("name", RELEASES)
def test_every_format_has_records_of_our_own(name):
    release = RELEASES[name]
    questions = build_questions([name], FIXTURES).questions
    assert questions
    for question in questions:
        assert question.id.startswith(f"{name}/")
        assert (question.dataset, question.domain) == (name, release.domain)
        assert question.center_prompt in question.prompt
        assert question.center_prompt != question.prompt  # peers are told how to state an answer
        if question.choices:
            assert set(question.reference.answers) <= {label for label, _ in question.choices}


@pytest.mark.parametrize("name", ["squad", "hotpotqa"])
def test_the_context_is_hidden_from_the_center(built, name):
    for question in built(name).values():
        assert "Ferden" in question.prompt
        assert "Ferden" not in question.center_prompt


def test_options_are_shown_to_both_and_answers_to_neither(built):
    question = built("piqa")["piqa/0"]
    assert question.center_prompt.endswith("\nA. Put it beside the oven.\nB. Put it in ice water.")
    assert question.reference.answers == ("B",)
    code = built("humaneval")["humaneval/0"]
    assert "half(math.pi" not in code.prompt


def test_details_of_formats(built):
    assert built("gsm8k")["gsm8k/1"].reference.answers == ("1,000,000",)
    assert built("amc23")["amc23/1"].reference.answers == ("27",)
    assert built("olympiadbench")["olympiadbench/1"].reference.answers == ("3, -3",)
    assert built("triviaqa")["triviaqa/t1"].center_prompt == 'Who said "mill" first?'
    assert {q.split for q in built("mbpp").values()} == {"test", "train"}
    assert built("mmlu")["mmlu/astronomy/0"].choices[2] == ("C", "Mercury")
    assert 'plant "needs' in built("openbookqa")["openbookqa/8-1"].prompt
    free, lettered = built("sciq").values()
    assert (free.grader, lettered.grader) == ("span", "choice")
    assert dict(lettered.choices)[lettered.reference.answers[0]] == "honey"
    bbh = built("bbh")
    assert bbh["bbh/movie_recommendation/0"].reference.answers == ("B",)
    assert bbh["bbh/movie_recommendation/1"].grader == "span"  # its options were cut at a comma
    assert bbh["bbh/navigate/0"].reference.answers == ("no",)
    glue = built("superglue")
    assert glue["superglue/wic/0"].reference.answers == ("no",)
    assert glue["superglue/wsc/0"].reference.answers == ("yes",)
    assert glue["superglue/multirc/0-0-1"].reference.answers == ("no",)


def test_competition_tasks_have_tests_of_both_forms(built):
    apps = built("apps")
    assert set(apps) == {"apps/0000", "apps/0001"}  # the third has no tests
    assert apps["apps/0000"].reference.tests == {
        "form": "stdin",
        "cases": [["1 2\n", "3\n"], ["5 6\n", "11\n"]],
    }
    assert apps["apps/0001"].reference.tests["function"] == "larger"
    live = built("livecodebench")
    assert live["livecodebench/own_a"].reference.tests["cases"] == [["hi\n", "hi\n"], ["ho\n", "ho\n"]]
    assert live["livecodebench/own_b"].reference.tests["cases"] == [[[[1, 2], 3], 6], [[[], 0], 0]]


def test_packed_tests_cannot_run_code(tmp_path):
    class Harm:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/harm",)

    record = json.loads((FIXTURES / "livecodebench" / "test.jsonl").read_text().splitlines()[0])
    record["private_test_cases"] = base64.b64encode(zlib.compress(pickle.dumps(Harm()))).decode()
    (tmp_path / "livecodebench").mkdir()
    (tmp_path / "livecodebench" / "test.jsonl").write_text(json.dumps(record))
    with pytest.raises(InputError, match="record 1: not as livecodebench is released"):
        build_questions(["livecodebench"], tmp_path)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("file", "text", "dataset", "message"),
    [
        (
            "gsm8k/train.jsonl",
            '{"question": "?"}',
            "gsm8k",
            "record 1: not as gsm8k is released .KeyError: 'answer'",
        ),
        ("gsm8k/train.jsonl", '{"question": "?", "answer": "7"}', "gsm8k", "no '#### n'"),
        ("gsm8k/train.jsonl", "{", "gsm8k", "line 1: not JSON"),
        ("other.txt", "", "gsm8k", "gsm8k is not at hand; expected .*train.jsonl"),
        ("other.txt", "", "gsm9k", "got dataset 'gsm9k'; expected a recipe"),
    ],
)
def test_a_release_that_is_not_as_published_is_refused(tmp_path, file, text, dataset, message):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match=message):
        build_questions([dataset], tmp_path)


HUB_ROWS = {
    "squad": {"question": "Q?", "context": "Secret.", "answers": {"text": ["a", "a"]}},
    "hotpotqa": {"id": "h", "question": "Q?", "answer": "a",
                 "context": {"title": ["T"], "sentences": [["S.", " Secret."]]}},
    "triviaqa": {"question_id": "t", "question": "Q?", "answer": {"value": "a", "aliases": ["b"]},
                 "entity_pages": {"title": ["T"], "wiki_context": ["Secret."]}, "search_results": {}},
    "mmlu": {"question": "Q?", "choices": ["a", "b", "c", "d"], "answer": 2, "subject": "law"},
    "openbookqa": {"id": "o", "question_stem": "Q", "answerKey": "B",
                   "choices": {"text": ["a", "b"], "label": ["A", "B"]}},
    "piqa": {"goal": "Q", "sol1": "a", "sol2": "b", "label": 1},
    "bbh": {"input": "Q\nOptions:\n(A) a\n(B) b", "target": "(A)"},
    "apps": {"problem_id": 1, "question": "Q", "solutions": "[]", "difficulty": "easy", "starter_code": "",
             "input_output": '{"inputs": ["1"], "outputs": ["1"]}'},
}  # fmt: skip


@pytest.mark.parametrize("name", HUB_ROWS)
def test_rows_of_the_hub_become_the_same_questions(monkeypatch, name):
    """The hub cannot be reached here: what is tested is the form of its rows as documented."""
    asked = []

    def load_dataset(repository, configuration, split, revision):
        asked.append((repository, configuration, split, revision))
        return [HUB_ROWS[name]]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    questions = build_questions([name], None).questions
    assert asked[0][0] == RELEASES[name].hub[0]
    scripted = name in ("piqa", "apps", "livecodebench")  # `datasets` from 4 on refuses their scripts
    assert asked[0][3] == ("refs/convert/parquet" if scripted else "main")
    assert len(questions) == len(RELEASES[name].hub[2])
    assert questions[0].reference.answers or questions[0].reference.tests
    assert "Secret" not in questions[0].center_prompt


@pytest.mark.parametrize(
    ("row", "right"),
    [
        ({"subset": "wic", "word": "w", "sentence1": "a", "sentence2": "b", "label": 1}, "yes"),
        ({"subset": "rte", "premise": "p", "hypothesis": "h", "label": 1}, "not_entailment"),
        ({"subset": "cb", "premise": "p", "hypothesis": "h", "label": 2}, "neutral"),
        ({"subset": "wsc", "text": "t", "span1_text": "a", "span2_text": "b", "label": 0}, "no"),
        ({"subset": "multirc", "paragraph": "p", "question": "q", "answer": "a", "label": 1}, "yes"),
    ],
)
def test_numbered_labels_of_superglue(row, right):
    idx = {"paragraph": 0, "question": 0, "answer": 0} if row["subset"] == "multirc" else 0
    (draft,) = RELEASES["superglue"].build(row | {"idx": idx})
    assert draft.answers == (right,)


def test_the_hub_needs_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"sigma-lab\[hub\]"):
        build_questions(["gsm8k"], None)
    with pytest.raises(InputError, match="college_math has no place on the hub"):
        build_questions(["college_math"], None)
