"""JSON as it may come from anyone: one error for all that can be wrong with it."""

import json


def decode_json(raw: bytes | str) -> object:
    """The value of a JSON text; ValueError for what is none, NaN and infinities included.

    >>> decode_json(b'{"a": 1}')
    {'a': 1}
    """
    text = raw if isinstance(raw, str) else raw.decode(json.detect_encoding(raw), "surrogatepass")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def clean_unicode(text: str) -> str:
    """The text with a question mark for every lone surrogate, which JSON can carry and no encoder takes."""
    return text.encode("utf-8", "replace").decode()


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)  # `json.loads` would make one for every text
