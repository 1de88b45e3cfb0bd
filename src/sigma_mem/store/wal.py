"""The write-ahead log beside a file that no writer closed: whether SQLite would leave out a part of it.

SQLite ends its log at the first frame whose checksum is wrong, as it must: a power cut may have torn what was
written last. A bit that flips later ends it there as well, and every line behind it is lost without a word.
So the log is read here first, as https://www.sqlite.org/fileformat2.html#walformat describes it.
"""

import time
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import StoreCorruptError

_HEADER, _FRAME = 32, 24  # bytes: of the log's header, and of a frame's
_MAGIC, _VERSION = 0x377F0682, 3007000  # a magic number plus 1 says that checksums are of big-endian words
_AGAIN = 0.05  # seconds

Words = NDArray[np.uint32]


def refuse_damaged_log(path: Path) -> None:
    """StoreCorruptError where committed frames of a file's log can no longer be read."""
    log = path.with_name(path.name + "-wal")
    before = None
    while (data := log.read_bytes() if log.exists() else b"") and (found := _damage(data)):
        if data == before:  # else a writer may be at work on it
            raise StoreCorruptError(
                f"{log} is damaged: {found}; what was appended last would be lost. Restore both files from a "
                "backup, or remove the log to go on without its lines"
            )
        before = data
        time.sleep(_AGAIN)


def _damage(log: bytes) -> str:
    """What is damaged in a log; "" where nothing is, or only what a kill or a power cut leaves behind."""
    if len(log) <= _HEADER + _FRAME:
        return ""  # no frame
    header = np.frombuffer(log, ">u4", _HEADER // 4).astype(np.uint32)
    magic, version, size = (int(number) for number in header[:3])
    words = "<u4" if magic == _MAGIC else ">u4"
    start = _summed(np.frombuffer(log, words, _HEADER // 4 - 2).astype(np.uint32)[None])[0]
    if magic not in (_MAGIC, _MAGIC + 1) or version != _VERSION or (start != header[6:]).any():
        return "its header"  # it is synced before the first frame
    count = (len(log) - _HEADER) // (_FRAME + size)
    every = np.frombuffer(log, np.uint8, count * (_FRAME + size), _HEADER).reshape(count, -1)
    heads = np.ascontiguousarray(every[:, :_FRAME]).view(">u4").astype(np.uint32)
    pages, salts, stored = heads[:, 1], heads[:, 2:4], heads[:, 4:]
    same = salts == header[4:6]
    ours = same.any(axis=1)  # of this use of the file, although one of the two salts may be damaged
    whole = int(np.append(~same.all(axis=1), True).argmax())  # frames that may be valid
    parts = np.concatenate([every[:whole, :8], every[:whole, _FRAME:]], axis=1).view(words).astype(np.uint32)
    wrong, expected = _first_wrong(_summed(parts), start, stored[:whole], parts.shape[1] // 2)
    if wrong == count or not ours[wrong]:
        return ""
    commits = np.flatnonzero(ours[wrong:] & (pages[wrong:] > 0))
    # What follows a commit was written when the commit was on the disk already.
    followed = len(commits) > 0 and bool(ours[wrong + commits[0] + 1 :].any())
    if wrong == whole:  # by a salt
        one_bit = _bits(salts[wrong], header[4:6]) == 1
    else:
        moved = stored[wrong] - expected
        one_bit = _bits(stored[wrong], expected) == 1 or _is_one_bit(moved, parts.shape[1] // 2)
    return f"frame {wrong + 1}" if followed or one_bit else ""


def _first_wrong(sums: Words, start: Words, stored: Words, pairs: int) -> tuple[int, Words]:
    """The first frame whose checksum is not the one stored, and what it should be; else their number."""
    step = _powers(pairs + 1)[-1]  # a checksum goes on from that of the frame before
    before = np.concatenate([start[None], stored])[: len(stored)]
    expected = sums + before @ step.T
    wrong = np.append((expected != stored).any(axis=1), True)
    first = int(wrong.argmax())
    return first, expected[first] if first < len(expected) else start


def _is_one_bit(moved: Words, pairs: int) -> bool:
    """Whether a checksum moved as one flipped bit moves it, which neither a kill nor a power cut does.

    A bit of value 2ᵇ of a word moves both sums by ±2ᵇ times the word's weights.
    """
    by_bit = _weights(pairs)[:, :, None] << np.arange(32, dtype=np.uint32)  # of sum, word and bit
    return any(bool((by_bit == sign[:, None, None]).all(axis=0).any()) for sign in (moved, -moved))


def _bits(found: Words, expected: Words) -> int:
    return sum(int(word).bit_count() for word in found ^ expected)


def _summed(rows: Words) -> Words:
    """SQLite's checksum of rows of words, each from zero.

    Two words x, y add x + second to the first sum, then y + first to the second.
    """
    return np.stack(
        [(rows * weights).sum(axis=1, dtype=np.uint32) for weights in _weights(rows.shape[1] // 2)], 1
    )


@cache
def _powers(n: int) -> Words:
    """Powers 0 to n − 1 of the step that a checksum takes over two words of zero, modulo 2³²."""
    step, powers = np.array([[1, 1], [1, 2]], np.uint32), [np.eye(2, dtype=np.uint32)]
    for _ in range(n - 1):
        powers.append(step @ powers[-1])
    return np.array(powers)


@cache
def _weights(pairs: int) -> Words:
    """How much each of so many pairs of words counts in both sums: shape (2, 2 · pairs)."""
    one_pair = np.array([[1, 0], [1, 1]], np.uint32)  # x counts in both sums, y in the second
    return (_powers(pairs)[::-1] @ one_pair).transpose(1, 0, 2).reshape(2, -1)
