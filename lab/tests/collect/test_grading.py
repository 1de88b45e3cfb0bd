import gzip
import json

import pytest

from sigma_lab.collect import sandbox
from sigma_lab.collect.question_sets import build_questions
from sigma_lab.collect.questions import read_questions
from sigma_lab.collect.reference_check import check_references, reference_response
from sigma_lab.collect.releases import RELEASES
from sigma_mem.cli.app import run
from sigma_mem.streams import load_stream

from .conftest import FIXTURES


def write_lines(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def files(tmp_path):
    """Questions of four datasets, and answers of two peers: one is right, one often absent or wrong."""
    names = ["piqa", "squad", "gsm8k", "superglue"]
    out = tmp_path / "q.jsonl.gz"
    assert run(["data", "questions", *names, "--raw", str(FIXTURES), "--out", str(out)]) == 0
    rows = []
    for number, question in enumerate(read_questions(out)):
        rows.append({"id": question.id, "peer": "ann", "text": reference_response(question), "tokens": 3})
        failed = {"error": "timeout"} if number % 3 == 0 else {}
        rows.append({"id": question.id, "peer": "bob", "text": None if failed else "Anna", **failed})
    write_lines(tmp_path / "answers.jsonl", rows)
    return tmp_path


def grade(folder, *options):
    arguments = ["data", "grade", str(folder / "answers.jsonl"), "--questions", str(folder / "q.jsonl.gz")]
    return run([*arguments, "--out", str(folder / "s.jsonl.gz"), *options])


def test_answers_become_a_stream(files, capsys):
    assert grade(files, "--json") == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    stream = load_stream(files / "s.jsonl.gz")
    questions = read_questions(files / "q.jsonl.gz")
    assert stream.peers == ("ann", "bob")
    assert [event.id for event in stream] == [question.id for question in questions]
    for event, question in zip(stream, questions, strict=True):
        assert event.question == question.center_prompt
        assert (event.dataset, event.domain) == (question.dataset, question.domain)
        assert event.correct["ann"] == 1.0
        assert event.answers["ann"].canon is not None
    assert sum(row["failed"] for row in report["grades"]) == sum("bob" not in e.answers for e in stream) == 5
    assert sum(row["right"] for row in report["grades"] if row["peer"] == "ann") == len(stream)
    assert sum(row["wrong"] for row in report["grades"] if row["peer"] == "bob") == len(stream) - 5


def test_an_answer_that_contains_a_right_one_is_right_only_if_asked_for(files):
    rows = [json.loads(line) for line in (files / "answers.jsonl").read_text().splitlines()]
    for row in rows:
        row["text"] = "Answer: the miller Anna Ritz" if row["peer"] == "bob" and row["text"] else row["text"]
    write_lines(files / "answers.jsonl", rows)
    found = []
    for match in ("exact", "contained"):
        assert grade(files, "--match", match) == 0
        stream = load_stream(files / "s.jsonl.gz")
        found += [e.correct["bob"] for e in stream if e.reference == "Anna Ritz" and "bob" in e.correct]
        how = json.loads((files / "s.grading.json").read_text())
        assert (how["spans"], how["sha256"]) == (match, stream.sha256)
    assert found == [-1.0, 1.0]
    assert grade(files, "--match", "f1") == 2  # nothing looser


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"id": "gsm8k/99", "peer": "a", "text": "1"},
            "an answer is to question 'gsm8k/99', which is not among",
        ),
        ({"id": "gsm8k/0", "peer": "a", "text": 1}, "line 2: Expected `str | null`, got `int`"),
        ({"id": "gsm8k/1", "peer": "a", "text": "1"}, "line 2: ('gsm8k/1', 'a') is there twice"),
    ],
)
def test_answers_that_do_not_fit_are_refused(files, capsys, row, message):
    write_lines(files / "answers.jsonl", [{"id": "gsm8k/1", "peer": "a", "text": "1"}, row])
    assert grade(files) == 2
    assert message in capsys.readouterr().err
    assert not (files / "s.jsonl.gz").exists()


def test_code_is_refused_where_it_cannot_be_isolated(tmp_path, capsys, monkeypatch):
    run(["data", "questions", "mbpp", "--raw", str(FIXTURES), "--out", str(tmp_path / "q.jsonl.gz")])
    write_lines(
        tmp_path / "answers.jsonl", [{"id": "mbpp/11", "peer": "a", "text": "def add(a, b): return a + b"}]
    )
    (tmp_path / "jail.py").write_text('print(\'{"status": "refused", "why": "unshare: not permitted"}\')')
    monkeypatch.setattr(sandbox, "_JAIL", tmp_path / "jail.py")
    capsys.readouterr()
    assert grade(tmp_path) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "s.jsonl.gz").exists()


@pytest.mark.usefixtures("isolated")
def test_the_references_of_our_own_records_grade_as_right_and_broken_ones_as_wrong(capsys):
    assert run(["data", "check", "--raw", str(FIXTURES), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["datasets"]
    assert [row["dataset"] for row in rows] == list(RELEASES)
    assert [row["misgraded"] for row in rows] == [[]] * len(rows)
    assert {row["dataset"] for row in rows if row["graded"] < row["questions"]} == {"livecodebench"}
    assert sum(row["caught"] for row in rows) > 30


@pytest.mark.usefixtures("isolated")
def test_references_of_the_original_files_grade_as_right(raw):
    """A sample; `sigma-mem data check --raw FOLDER` grades all of them."""
    for name in RELEASES:
        if not RELEASES[name].found(raw):
            continue
        questions = build_questions([name], raw).questions
        few = RELEASES[name].grader in ("program", "math")
        (row,) = check_references(questions[:: max(1, len(questions) // (4 if few else 40))])
        assert row.misgraded == (), name
        assert row.graded == row.questions


def test_the_file_of_questions_says_what_is_missing(tmp_path, capsys):
    assert (
        run(["data", "questions", "paper-ood", "--raw", str(tmp_path), "--out", str(tmp_path / "q.jsonl.gz")])
        == 0
    )
    assert (
        "shown without piqa, mmlu, openbookqa, sciq, bbh, superglue: not at hand" in capsys.readouterr().out
    )
    assert gzip.decompress((tmp_path / "q.jsonl.gz").read_bytes()) == b""
