"""Packed arrays come back bit for bit, and a damaged blob never comes back at all."""

import json
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sigma_mem.errors import StoreCorruptError, StoreVersionError
from sigma_mem.store.codec import pack_arrays, unpack_arrays

META = {"clock": 7, "peers": ["a", "β"], "tick": 0.1}
ARRAYS = {
    "M": np.arange(12.0).reshape(3, 2, 2),
    "empty": np.zeros((0, 4)),
    "count": np.array(5),
    "ids": np.arange(3, dtype=np.int64),
}


def sealed(header: object, payload: bytes = b"", version: int = 1, magic: bytes = b"SIGMAARR") -> bytes:
    """A blob with a valid CRC around any header: what a buggy or hostile writer could make."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    blob = struct.pack("<8sII", magic, version, len(text)) + text + payload
    return blob + struct.pack("<I", zlib.crc32(blob))


numbers = st.sampled_from([np.float64, np.int64]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


@given(st.dictionaries(st.text(max_size=5), numbers, max_size=4))
def test_round_trip_is_bitwise(arrays):
    meta, back = unpack_arrays(pack_arrays(META, arrays))
    assert meta == META
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].shape == array.shape
        assert back[name].dtype == array.dtype
        assert back[name].tobytes() == array.tobytes()


def test_same_input_same_bytes_and_arrays_are_writable():
    blob = pack_arrays(META, ARRAYS)
    assert blob == pack_arrays(META, {name: array.copy() for name, array in ARRAYS.items()})
    _, back = unpack_arrays(blob)
    back["M"][0, 0, 0] = 9.0
    assert ARRAYS["M"][0, 0, 0] == 0.0


def test_fortran_order_and_big_endian_are_normalised():
    array = np.arange(6.0).reshape(2, 3)
    for variant in (np.asfortranarray(array), array.astype(">f8"), array[:, :]):
        _, back = unpack_arrays(pack_arrays({}, {"a": variant}))
        np.testing.assert_array_equal(back["a"], array)
        assert back["a"].dtype.isnative


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_, np.complex128, object])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(ValueError, match="expected float64 or int64"):
        pack_arrays({}, {"a": np.zeros(2, dtype=dtype)})


def test_nan_in_meta_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        pack_arrays({"x": float("nan")}, {})


@given(st.data())
def test_any_flipped_bit_is_corrupt(data):
    blob = bytearray(pack_arrays(META, ARRAYS))
    at = data.draw(st.integers(0, len(blob) - 1))
    blob[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(StoreCorruptError, match="damaged"):
        unpack_arrays(bytes(blob))


def test_every_truncation_and_padding_is_corrupt():
    blob = pack_arrays(META, ARRAYS)
    for end in range(len(blob)):
        with pytest.raises(StoreCorruptError):
            unpack_arrays(blob[:end])
    with pytest.raises(StoreCorruptError):
        unpack_arrays(blob + b"\0")


@pytest.mark.parametrize(
    ("header", "payload"),
    [
        (b"not json", b""),
        (b"\xff\xfe", b""),
        ([], b""),
        ({"arrays": []}, b""),
        ({"meta": {}}, b""),
        ({"meta": {}, "arrays": [["a", "<f8"]]}, b""),
        ({"meta": {}, "arrays": [["a", "<f4", [1]]]}, b"\0" * 4),
        ({"meta": {}, "arrays": [["a", "|O8", [1]]]}, b"\0" * 8),
        ({"meta": {}, "arrays": [[1, "<f8", [1]]]}, b"\0" * 8),
        ({"meta": {}, "arrays": [["a", "<f8", [-1]]]}, b"\0" * 8),
        ({"meta": {}, "arrays": [["a", "<f8", [True]]]}, b"\0" * 8),
        ({"meta": {}, "arrays": [["a", ["<f8"], [1]]]}, b"\0" * 8),
        ({"meta": {}, "arrays": [["a", "<f8", [2]]]}, b"\0" * 8),
        ({"meta": {}, "arrays": [["a", "<f8", [10**30]]]}, b"\0" * 8),
        ({"meta": {}, "arrays": [["a", "<f8", [0, 10**30]]]}, b""),
        ({"meta": {}, "arrays": [["a", "<f8", [0, 2**62, 2**62]]]}, b""),
        ({"meta": {}, "arrays": [["a", "<f8", [0] * 100]]}, b""),
        ({"meta": {}, "arrays": [["a", "<f8", [1]]]}, b"\0" * 9),
        ({"meta": {}, "arrays": [["a", "<f8", [0]], ["a", "<f8", [0]]]}, b""),
    ],
)
def test_a_wrong_header_with_a_right_crc_is_still_corrupt(header, payload):
    with pytest.raises(StoreCorruptError, match="damaged"):
        unpack_arrays(sealed(header, payload))


def test_header_longer_than_the_blob_is_corrupt():
    blob = struct.pack("<8sII", b"SIGMAARR", 1, 10_000) + b'{"meta":{},"arrays":[]}'
    with pytest.raises(StoreCorruptError):
        unpack_arrays(blob + struct.pack("<I", zlib.crc32(blob) ^ 1))


def test_another_magic_is_corrupt_and_a_newer_format_says_upgrade():
    with pytest.raises(StoreCorruptError, match="starts with"):
        unpack_arrays(sealed({"meta": {}, "arrays": []}, magic=b"PICKLED!"))
    with pytest.raises(StoreVersionError, match="upgrade"):
        unpack_arrays(sealed({"meta": {}, "arrays": []}, version=2))
