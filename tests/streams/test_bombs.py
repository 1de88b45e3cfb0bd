"""A small file that unpacks to a huge one is refused by size, before it fills the memory."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import export, restore
from sigma_mem.admin.transfer import read_ledger
from sigma_mem.errors import InputError, StreamError
from sigma_mem.streams import load_stream
from sigma_mem.streams.jsonl import read_file, zstd
from sigma_mem.streams.tables import parse

MEGABYTE = b"a" * 1_000_000
LOAD = """
import resource, sys
from sigma_mem.errors import StreamError
from sigma_mem.streams import load_stream
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load_stream(sys.argv[1])
except StreamError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


def write_bomb(path: Path) -> Path:
    """A gigabyte without a line's end, packed."""
    if path.suffix == ".gz":
        path.write_bytes(1000 * gzip.compress(MEGABYTE))
    else:
        path.write_bytes(1000 * zstd.compress(MEGABYTE, level=1))
    return path


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_stream_that_unpacks_to_a_gigabyte_is_refused_in_little_memory(tmp_path: Path, ending: str) -> None:
    bomb = write_bomb(tmp_path / f"b.jsonl.{ending}")
    assert bomb.stat().st_size < 2_000_000
    said = subprocess.check_output([sys.executable, "-c", LOAD, bomb], text=True)
    kilobytes, message = said.split(" ", 1)
    assert int(kilobytes) < 300_000
    assert "as no stream does" in message


def test_one_member_that_unpacks_to_much_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "b.jsonl.gz"
    bomb.write_bytes(gzip.compress(150 * MEGABYTE))
    with pytest.raises(StreamError, match="as no stream does"):
        load_stream(bomb)


@pytest.mark.parametrize("name", ["b.csv.gz", "b.json.zst", "b.jsonl.gz"])
def test_every_format_is_bounded(tmp_path: Path, name: str) -> None:
    with pytest.raises(StreamError, match="as no stream does"):
        parse(write_bomb(tmp_path / name))


def test_a_table_that_repeats_one_long_text_is_refused(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    repeated = arrow.DictionaryArray.from_arrays(arrow.array([0] * 2_000), ["x" * 100_000])
    parquet.write_table(arrow.table({"question": repeated}), tmp_path / "b.parquet")
    assert (tmp_path / "b.parquet").stat().st_size < 200_000
    with pytest.raises(StreamError, match="as no stream does"):
        parse(tmp_path / "b.parquet")


def test_an_exported_memory_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="as no stream does"):
        restore(write_bomb(tmp_path / "b.jsonl.gz"))
    nested = tmp_path / "n.jsonl"
    nested.write_text(json.dumps({"format": "sigma-mem ledger", "version": 1}) + "\n" + "[" * 100_000 + "\n")
    with pytest.raises(InputError, match="line 2 is not JSON"):
        restore(nested)


def test_an_exported_memory_with_a_flipped_bit_is_refused_or_right(tmp_path: Path) -> None:
    with SigmaMem(["a"], rank=1) as mem:
        for _ in range(5):
            mem.route(phi=[1.0])
        export(mem, tmp_path / "m.jsonl.gz")
    whole, refused = (tmp_path / "m.jsonl.gz").read_bytes(), 0
    right = read_ledger(read_file(tmp_path / "m.jsonl.gz"), "m")
    for at in range(10, len(whole)):
        (tmp_path / "d.jsonl.gz").write_bytes(whole[:at] + bytes([whole[at] ^ 0x24]) + whole[at + 1 :])
        try:
            found = read_ledger(read_file(tmp_path / "d.jsonl.gz"), "d")
            assert found == right  # the last bits of a block are not used
        except InputError:
            refused += 1
    assert refused > 0.9 * (len(whole) - 10)
