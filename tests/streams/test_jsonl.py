from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigma_mem.errors import InputError, SigmaMemError, StreamError
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream, load_stream, save_stream
from sigma_mem.streams.jsonl import zstd

from .strategies import streams

GOOD = {"id": "q1", "dataset": "d", "domain": "math", "question": "2+2?", "reference": "4"}
GOOD["answers"] = {"a": {"text": "It is 4", "canon": "4"}, "b": {"text": "5", "canon": None}}
GOOD["correct"] = {"a": True, "b": False}


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(r).encode() + b"\n" for r in records)


def other(event_id: str, **changes: object) -> dict[str, object]:
    return {**GOOD, "id": event_id, **changes}


def write(folder: Path, content: bytes, name: str = "s.jsonl") -> Path:
    file = folder / name
    file.write_bytes(content)
    return file


def test_reads_every_field(tmp_path: Path) -> None:
    stream = load_stream(write(tmp_path, lines(GOOD)))
    answers = {"a": Answer("It is 4", "4"), "b": Answer("5", None)}
    event = Event("q1", "2+2?", answers, {"a": 1.0, "b": -1.0}, "math", "d", "4")
    assert (stream.name, stream.peers, stream.events) == ("s", ("a", "b"), (event,))


def test_soft_and_missing_labels(tmp_path: Path) -> None:
    file = write(tmp_path, lines(other("1", correct={"a": 0.25}), other("2", correct={"a": -1, "b": None})))
    first, second = load_stream(file).events
    assert first.correct == {"a": 0.25}
    assert second.correct == {"a": -1.0}


def test_least_event_and_canon_of_text(tmp_path: Path) -> None:
    file = write(tmp_path, lines({"id": "1", "question": "?", "answers": {"a": {"text": "391"}}}))
    (event,) = load_stream(file).events
    assert (event.correct, event.domain, event.dataset, event.reference) == ({}, "", "", None)
    assert event.answers["a"].canon == "391"


def test_blank_lines_and_byte_order_mark_are_skipped(tmp_path: Path) -> None:
    file = write(tmp_path, b"\xef\xbb\xbf" + lines(GOOD) + b"\r\n\n" + lines(other("q2")).rstrip())
    assert len(load_stream(file)) == 2


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"{", "truncated"),
        (b"\xff{}", "UTF-8"),
        (b"[]", "got `array`"),
        (b'{"x":' * 100_000, "recursion"),
        (lines(other("q9", id=3)), "got `int` - at `$.id`"),
        (lines(other("")), "length >= 1 - at `$.id`"),
        (lines({"id": "x"}), "missing required field `question`"),
        (lines(other("q9", domain=None)), "got `null` - at `$.domain`"),
        (lines(other("q9", answers={})), "length >= 1 - at `$.answers`"),
        (lines(other("q9", answers={"a": "4"})), "got `str` - at `$.answers[...]`"),
        (lines(other("q9", answers={"": {"text": "4"}})), "`key` in `$.answers`"),
        (lines(other("q9", answers={"a": {"text": "4", "canon": 4}})), "`$.answers[...].canon`"),
        (lines(other("q9", correct=[True])), "got `array` - at `$.correct`"),
        (lines(other("q9", correct={"z": True})), "'z' is in \"correct\" but has no answer"),
        (lines(other("q9", correct={"a": 1.5})), "<= 1.0 - at `$.correct[...]`"),
        (lines(other("q9", correct={"a": -1.5})), ">= -1.0 - at `$.correct[...]`"),
        (lines(other("q9", correct={"a": float("nan")})), "invalid character"),
        (lines(other("q9", correct={"a": "yes"})), "got `str` - at `$.correct[...]`"),
        (lines(other("q9", reference=["4"])), "got `array` - at `$.reference`"),
        (lines(other("q1")), "already on line 1"),
        (b'{"id": "q9", "question": "\\ud800", "answers": {"a": {"text": "4"}}}', "surrogate"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_loaded(tmp_path: Path, bad: bytes, says: str) -> None:
    file = write(tmp_path, lines(GOOD, other("q2")) + bad.rstrip(b"\n") + b"\n" + lines(other("q3")))
    with pytest.raises(StreamError) as caught:
        load_stream(file)
    assert f"{file}, line 3: " in str(caught.value)
    assert says in str(caught.value)


def test_whole_surrogate_pairs_are_text(tmp_path: Path) -> None:
    file = write(tmp_path, lines(other("q1", question="🙂")))
    assert b"\\ud83d" in file.read_bytes()
    assert load_stream(file).events[0].question == "🙂"


def test_a_bad_line_is_found_even_where_the_selection_leaves_it_out(tmp_path: Path) -> None:
    file = write(tmp_path, lines(GOOD) + b"nonsense\n")
    with pytest.raises(StreamError, match="line 2"):
        load_stream(file, limit=1)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("missing", [1, 5, 300, None])
def test_cut_off_or_not_compressed_at_all(tmp_path: Path, suffix: str, missing: int | None) -> None:
    plain = lines(*[other(f"q{i}") for i in range(2000)])
    packed = gzip.compress(plain) if suffix == ".gz" else zstd.compress(plain)
    file = write(tmp_path, packed[:-missing] if missing else plain, f"s.jsonl{suffix}")
    with pytest.raises(StreamError, match="damaged or cut off"):
        load_stream(file)


def test_several_zstd_frames_are_one_file(tmp_path: Path) -> None:
    packed = zstd.compress(lines(GOOD)) + zstd.compress(lines(other("q2")))
    assert len(load_stream(write(tmp_path, packed, "s.zst"))) == 2


def test_absent_empty_or_a_folder(tmp_path: Path) -> None:
    for file, says in [(tmp_path / "no.jsonl", "No such file"), (tmp_path, "directory")]:
        with pytest.raises(StreamError, match=says):
            load_stream(file)
    with pytest.raises(StreamError, match="holds no event"):
        load_stream(write(tmp_path, b"\n"))


def test_peers_keep_the_order_of_first_appearance(tmp_path: Path) -> None:
    answer = {"text": "4", "canon": "4"}
    partial = other("0", answers={"c": answer, "a": answer}, correct={})
    assert load_stream(write(tmp_path, lines(partial, GOOD))).peers == ("c", "a", "b")


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@settings(deadline=None, max_examples=30)
@given(stream=streams(min_events=1))
def test_saved_streams_load_equal(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, stream: Stream
) -> None:
    file = save_stream(stream, tmp_path_factory.mktemp("s") / f"drawn.jsonl{suffix}")
    again = load_stream(file)
    assert again.events == stream.events
    assert load_stream(file, peers=[p for p in stream.peers if p in again.peers]).events == stream.events


@settings(deadline=None)
@given(stream=streams(min_events=1), where=st.integers(0, 11), cut=st.integers(1, 10**6))
def test_a_damaged_line_is_always_named(
    tmp_path_factory: pytest.TempPathFactory, stream: Stream, where: int, cut: int
) -> None:
    file = save_stream(stream, tmp_path_factory.mktemp("s") / "drawn.jsonl")
    content = file.read_bytes().split(b"\n")[:-1]
    where %= len(content)
    content[where] = content[where][: cut % (len(content[where]) - 1) + 1]  # never a whole object
    file.write_bytes(b"\n".join(content))
    with pytest.raises(StreamError, match=rf"drawn\.jsonl, line {where + 1}: "):
        load_stream(file)


def test_recorded_streams(mmlu_pro: Stream, zeroeval: Stream) -> None:
    assert (len(mmlu_pro), len(mmlu_pro.peers), len(mmlu_pro.domains)) == (7206, 8, 14)
    assert (len(zeroeval), len(zeroeval.peers), len(zeroeval.domains)) == (1697, 6, 3)


def test_an_unknown_peer_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no peer 'z' in this stream; it has a, b"):
        load_stream(write(tmp_path, lines(GOOD)), peers=["z"])


EVENT = Event("e1", "2+2?", {"a": Answer("4", "4")}, {"a": 0.5}, "math", "d", "4")
STREAM = Stream("tiny", ("a",), (EVENT,))


@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.gz", "s.jsonl.zst"])
def test_same_stream_same_bytes(tmp_path: Path, name: str) -> None:
    first = save_stream(STREAM, tmp_path / name).read_bytes()
    assert save_stream(STREAM, tmp_path / name).read_bytes() == first
    assert [f.name for f in tmp_path.iterdir()] == [name]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = save_stream(STREAM, tmp_path / "s.jsonl")
    half = Event("e2", "half a pair \ud800", {"a": Answer("4", "4")}, {})
    with pytest.raises(UnicodeEncodeError):
        save_stream(Stream("broken", ("a",), (EVENT, half)), file)
    assert load_stream(file).events == (EVENT,)
    assert [f.name for f in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StreamError, match=r"cannot write .*check the path"):
        save_stream(STREAM, tmp_path / "no" / "s.jsonl")


def test_new_files_are_readable_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    saved = save_stream(STREAM, tmp_path / "s.jsonl")
    assert saved.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_disk_that_fails_is_not_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    expected = r"cannot write .*No space left on device; check the disk"
    with pytest.raises(SigmaMemError, match=expected) as caught:
        save_stream(STREAM, tmp_path / "s.jsonl")
    assert not isinstance(caught.value, InputError)
    assert list(tmp_path.iterdir()) == []


def test_shared_streams_with_absent_peers_fractional_labels_and_unknown_fields() -> None:
    shared = Path(__file__).parents[3] / "shared" / "data"
    sizes = {"agbenchmark": (521, 8), "costs": (1766, 4), "bfcl-v1": (1700, 71)}
    if not all((shared / f"{name}.jsonl.gz").exists() for name in sizes):
        pytest.skip("the shared streams are not here")
    loaded = {name: load_stream(shared / f"{name}.jsonl.gz") for name in sizes}
    assert {name: (len(s), len(s.peers)) for name, s in loaded.items()} == sizes
    assert any(len(e.answers) < 8 for e in loaded["agbenchmark"])
    assert any(0.0 < abs(c) < 1.0 for e in loaded["costs"] for c in e.correct.values())


def test_unknown_fields_are_ignored(tmp_path: Path) -> None:
    plain, more = (
        load_stream(write(tmp_path, lines(r))) for r in (GOOD, other("q1", tokens={"a": 3}, seen=[1]))
    )
    assert plain.events == more.events


def test_costs_and_latency_are_kept(tmp_path: Path) -> None:
    stream = load_stream(write(tmp_path, lines(other("q1", costs={"a": 0.1, "b": None}, latency={"b": 2}))))
    assert stream.events[0].costs == {"a": 0.1}
    assert stream.events[0].latency == {"b": 2.0}
    assert stream.costs()[0, 0] == 0.1
    again = load_stream(save_stream(stream, tmp_path / "again.jsonl"))
    assert again.events == stream.events
    assert again.select(peers=["b"]).events[0].costs == {}


@pytest.mark.parametrize("wrong", [[1], {"a": -1}, {"a": "x"}, {"a": True}, {"c": 1.0}])
def test_wrong_costs_are_refused(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(StreamError, match="costs"):
        load_stream(write(tmp_path, lines(other("q1", costs=wrong))))
