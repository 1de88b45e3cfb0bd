from __future__ import annotations

from pathlib import Path

import pytest

from sigma_mem.errors import StreamError
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream, load_stream, save_stream

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
    with pytest.raises(StreamError, match="cannot be written"):
        save_stream(STREAM, tmp_path / "no" / "s.jsonl")


def test_new_files_are_readable_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    saved = save_stream(STREAM, tmp_path / "s.jsonl")
    assert saved.stat().st_mode == (tmp_path / "plain").stat().st_mode
