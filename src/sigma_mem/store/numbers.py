"""Numbers in one to nine bytes: integers, and decimals of at most four places; small ones are short.

The first byte says how many follow. Codes stand beside one another without separators::

    0–63     an integer from −16 to 47
    64–167   and 1 byte more: n from −8,312 to 18,311
    168–231  and 2 bytes more: n up to ±2,097,151
    232–239  and 1 to 8 bytes more, little-endian: any integer
    240–247  and 1 to 8 bytes more, little-endian: any n

n is a decimal in units of 0.0001 where a number is read, and an integer where one is.
"""

import re
from functools import lru_cache

UNITS = 10_000
LONGEST_INTEGER, LONGEST_DECIMAL = 15, 14  # characters of numbers that have a code; all are exact
_DECIMAL = re.compile(rb"(-?)(\d+)\.(\d{1,4})")
_SMALL, _TWO, _THREE = 16, 8_312, 2_097_152  # the first n of each length, negated
_SMALL_NUMBERS = [float(n - _SMALL) for n in range(64)]
_TWO_BYTES = [(n - _TWO) / UNITS for n in range(104 * 256)]


def coded_integer(value: int) -> bytes:
    """The code of an integer.

    >>> [len(coded_integer(n)) for n in (7, 7000, 700_000, 7_000_000)]
    [1, 2, 3, 4]
    """
    return _small(value) or _medium(value) or _wide(value, 232)


@lru_cache(maxsize=1 << 15)
def coded_number(token: bytes) -> tuple[bool, bytes] | None:
    """Whether a number of JSON has a decimal point, and its code; None where it has none that is exact.

    >>> coded_number(b"0.25"), coded_number(b"0.12345")
    ((True, b'j<'), None)
    """
    if b"." not in token:
        if len(token) > LONGEST_INTEGER or b"e" in token:
            return None
        value = int(token)
        return (False, coded_integer(value)) if b"%d" % value == token else None
    found = _DECIMAL.fullmatch(token)
    if found is None or len(token) > LONGEST_DECIMAL:
        return None
    n = int(found[2]) * UNITS + int(found[3].ljust(4, b"0"))
    n = -n if found[1] else n
    return (True, coded_decimal(n)) if repr(n / UNITS).encode() == token else None


@lru_cache(maxsize=1 << 15)
def coded_decimal(n: int) -> bytes:
    """The code of a decimal in units of 0.0001."""
    if n % UNITS == 0:
        return _small(n // UNITS) or _wide(n // UNITS, 232)
    return _medium(n) or _wide(n, 240)


def read_integer(packed: bytes, at: int) -> tuple[int, int]:
    """The integer whose code stands here, and where the next one does."""
    n, _, end = _read(packed, at)
    return n, end


def read_number(packed: bytes, at: int) -> tuple[float, int]:
    """The number whose code stands here, and where the next one does."""
    n, whole, end = _read(packed, at)
    return (float(n) if whole else n / UNITS), end


def read_numbers(packed: bytes, at: int, count: int) -> tuple[list[float], int]:
    """So many numbers whose codes stand here, and where the next one does; as `read_number` gives them."""
    out: list[float] = []
    for _ in range(count):
        first = packed[at]
        if first < 64:
            out.append(_SMALL_NUMBERS[first])
            at += 1
        elif first < 168:
            out.append(_TWO_BYTES[(first << 8 | packed[at + 1]) - 16384])
            at += 2
        else:
            number, at = read_number(packed, at)
            out.append(number)
    return out, at


def _small(n: int) -> bytes:
    return bytes([n + _SMALL]) if -_SMALL <= n < 64 - _SMALL else b""


def _medium(n: int) -> bytes:
    if -_TWO <= n < 104 * 256 - _TWO:
        return (64 * 256 + n + _TWO).to_bytes(2, "big")
    return (168 * 65536 + n + _THREE).to_bytes(3, "big") if -_THREE <= n < _THREE else b""


def _wide(n: int, first: int) -> bytes:
    size = (n.bit_length() + 8) // 8
    return bytes([first + size - 1]) + n.to_bytes(size, "little", signed=True)


def _read(packed: bytes, at: int) -> tuple[int, bool, int]:
    """n, whether it counts whole numbers, and the end of its code."""
    first = packed[at]
    if first < 64:
        return first - _SMALL, True, at + 1
    if first < 168:
        return (first - 64) * 256 + packed[at + 1] - _TWO, False, at + 2
    if first < 232:
        return (first - 168) * 65536 + packed[at + 1] * 256 + packed[at + 2] - _THREE, False, at + 3
    end = at + 2 + (first - 232) % 8
    return int.from_bytes(packed[at + 1 : end], "little", signed=True), first < 240, end
