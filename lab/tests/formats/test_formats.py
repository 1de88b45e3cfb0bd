import json
import pickle
from pathlib import Path

import pytest

from sigma_lab.formats import import_stream
from sigma_mem.cli.app import run
from sigma_mem.errors import InputError, MissingExtraError, StreamError
from sigma_mem.streams import load_stream
from sigma_mem.streams.tables import Imported

FIXTURES = Path(__file__).parent / "fixtures"


def labels(imported: Imported) -> dict[str, dict[str, float]]:
    return {e.id: dict(e.correct) for e in imported.stream}


def test_routerbench() -> None:
    imported = import_stream([FIXTURES / "routerbench.csv"])
    assert imported.stream.peers == ("gpt-3.5-turbo-1106", "claude-v1", "mistralai/mistral-7b-chat")
    bone, apples, haiku = imported.stream.events
    assert bone.domain == "mmlu-anatomy"
    assert bone.question.startswith("Please answer with the letter")
    assert "\n" in bone.question
    assert [a.canon for a in bone.answers.values()] == ["B", "B", "A"]
    assert bone.correct == {"gpt-3.5-turbo-1106": 1.0, "claude-v1": 1.0, "mistralai/mistral-7b-chat": -1.0}
    assert apples.answers["claude-v1"].text == "It's 7."
    assert apples.costs["claude-v1"] == 0.000592
    assert haiku.question == "Write a haiku.\nNow about rain."
    assert haiku.correct == {"gpt-3.5-turbo-1106": 0.5}  # 0.75 → c = ½; 7.0 is no share
    assert [len(event.answers) for event in imported.stream] == [3, 3, 2]
    assert [len(event.correct) for event in imported.stream] == [3, 3, 1]
    assert imported.dropped == {"the model was not run on this question": 1}


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".json.gz"])
def test_routerbench_as_json_is_the_same(tmp_path: Path, ending: str) -> None:
    import csv
    import gzip

    with (FIXTURES / "routerbench.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    text = "\n".join(map(json.dumps, rows)) if ending == ".jsonl" else json.dumps(rows)
    target = tmp_path / f"routerbench{ending}"
    target.write_bytes(gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode())
    assert import_stream([target]).stream == import_stream([FIXTURES / "routerbench.csv"]).stream


def test_llmrouterbench() -> None:
    imported = import_stream([FIXTURES / "llmrouterbench"])
    assert imported.stream.peers == ("Qwen3-8B", "gemma-2-9b-it")
    assert labels(imported) == {
        "aime-test-1": {"Qwen3-8B": 1.0, "gemma-2-9b-it": 1.0},
        "aime-test-2": {"Qwen3-8B": -1.0, "gemma-2-9b-it": 1.0},
        "aime-test-3": {},
    }
    second = imported.stream.events[1]
    assert (second.question, second.reference, second.dataset) == ("What is 7*8?", "56", "aime")
    assert second.answers["Qwen3-8B"].text == "7*8 = 54"
    assert [a.canon for a in second.answers.values()] == ["54", "56"]
    assert second.costs == {"Qwen3-8B": 0.0001, "gemma-2-9b-it": 0.0001}
    assert [len(event.answers) for event in imported.stream] == [2, 2, 1]


def test_unknown_format_is_a_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    file.write_text('[{"a": 1}]')
    with pytest.raises(StreamError, match="no known format; expected one of routerbench, llmrouterbench"):
        import_stream([file])
    with pytest.raises(StreamError, match="does not look like llmrouterbench but like routerbench"):
        import_stream([FIXTURES / "routerbench.csv"], format="llmrouterbench")
    with pytest.raises(InputError, match="got format 'mlflow'; expected auto or one of"):
        import_stream([file], format="mlflow")
    with pytest.raises(StreamError, match="several formats"):
        import_stream([FIXTURES / "routerbench.csv", FIXTURES / "llmrouterbench"])


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "sprung",))  # type: ignore[return-value]

    file = tmp_path / "routerbench_0shot.pkl"
    file.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(StreamError, match="pickle, which can run code"):
        import_stream([file])
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.json", b"{", "line 1: not JSON"),
        ("x.jsonl", b'{"a": 1}\n{', "line 2: not JSON"),
        ("x.json", b"\xff", "not UTF-8"),
        ("x.csv", b'a,b\n1,"2', "not CSV"),
        ("x.csv", b"a,b\n1\n", r"line 2: not CSV \(it has more or fewer fields"),
        ("x.txt", b"a", "got the ending '.txt'"),
        ("x.eval", b"a", "inspect log convert"),
        ("x.json.gz", b"a", "damaged"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(StreamError, match=says) as caught:
        import_stream([file])
    assert str(file) in str(caught.value)


def test_absent_file_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(StreamError, match="No such file"):
        import_stream([tmp_path / "no.json"])
    with pytest.raises(StreamError, match="no file to import"):
        import_stream([tmp_path])


def test_parquet_without_pyarrow_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    file = tmp_path / "x.parquet"
    file.write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError, match=r"pip install 'sigma-mem\[parquet\]'"):
        import_stream([file])


def test_nothing_usable(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps([{"sample_id": "t", "prompt": "?", "m": None, "m|model_response": "!"}]))
    with pytest.raises(StreamError, match="no usable answer \\(1 dropped: the model was not run"):
        import_stream([file])


def test_another_question_under_the_same_id_is_dropped(tmp_path: Path) -> None:
    blank = dict.fromkeys(("m", "m|model_response", "n", "n|model_response"), "")
    one = blank | {"sample_id": "t", "prompt": "One?", "m": 1, "m|model_response": "a"}
    two = blank | {"sample_id": "t", "prompt": "Two?", "n": 1, "n|model_response": "b"}
    file = tmp_path / "table.json"
    file.write_text(json.dumps([one, two]))
    assert "another question under the same id" in import_stream([file]).dropped


def test_command_writes_a_stream_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "rb.jsonl.gz"
    assert run(["import", str(FIXTURES / "routerbench.csv"), "-o", str(target), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["events"], printed["kept"], printed["rows"]) == (3, 8, 9)
    assert (printed["unlabelled"], printed["partial"]) == (1, 1)
    assert printed["dropped"] == {"the model was not run on this question": 1}
    assert load_stream(target).sha256 == printed["sha256"]
    assert run(["import", str(FIXTURES / "routerbench.csv"), "-o", str(target)]) == 0
    output = capsys.readouterr().out
    assert "3 events, 3 peers" in output
    assert "kept 8 of 9 answers" in output
    assert "dropped 1: the model was not run" in output


@pytest.mark.parametrize("extra", [["--format", "mlflow"], ["--kind", "essay"]])
def test_command_errors_are_one_line_and_exit_2(
    tmp_path: Path, extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.jsonl"
    assert run(["import", str(FIXTURES / "routerbench.csv"), "-o", str(target), *extra]) == 2
    said = capsys.readouterr().err
    what = "format" if extra[1] == "mlflow" else "answer kind"
    assert said.startswith(f"sigma-mem: got {what} {extra[1]!r}; expected")
    assert said.count("\n") == 1
    assert not target.exists()
