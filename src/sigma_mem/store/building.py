"""JSON values from the values of a shape, without its text."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

_DIGITS = re.compile(rb"\d+")
_MOST_DIGITS = 1000  # of a number
Build = Callable[[list[Any]], Any]


class Slot(int):
    """Where a value stands among all of them."""


def builder(tree: Any) -> Build:
    """What puts values in their places of a tree.

    >>> build = builder(tree_of([b'{"a":', b',"b":[', b"," , b'],"c":null}']))
    >>> build([1.0, 2.0, "x"])
    {'a': 1.0, 'b': [2.0, 'x'], 'c': None}
    """
    return _built(tree)


def tree_of(between: list[bytes]) -> Any | None:
    """JSON values with a `Slot` where a value stands between texts; None where texts do not mean that.

    >>> tree_of([b'{"a":', b',"b":[', b"," , b'],"c":null}'])
    {'a': 0, 'b': [1, 2], 'c': None}
    """
    count = len(between) - 1
    longest = max((len(digits) for text in between for digits in _DIGITS.findall(text)), default=0)
    if longest > _MOST_DIGITS:
        return None
    beyond = 10 ** (len(str(count)) + longest)  # no number in the texts has as many digits
    parts = [part for place, text in enumerate(between) for part in (text, b"%d" % (beyond + place))][:-1]

    def placed(token: str) -> int:
        value = int(token)
        return Slot(value - beyond) if value >= beyond else value

    try:
        tree = json.loads(b"".join(parts), parse_int=placed)
    except ValueError:
        return None
    # A value inside a key or a longer number would be missing here.
    return tree if [int(place) for place in _places(tree)] == list(range(count)) else None


def _places(tree: Any) -> Iterator[Slot]:
    if isinstance(tree, Slot):
        yield tree
    elif isinstance(tree, dict | list):
        for inner in tree.values() if isinstance(tree, dict) else tree:
            yield from _places(inner)


def _built(tree: Any) -> Build:
    """What builds a part of the tree."""
    if isinstance(tree, Slot):
        at = int(tree)
        return lambda values: values[at]
    if not isinstance(tree, dict | list):
        return lambda values: tree
    inner = list(tree.values()) if isinstance(tree, dict) else tree
    keys = list(tree) if isinstance(tree, dict) else None
    if inner and all(isinstance(part, Slot) for part in inner):
        run = slice(int(inner[0]), int(inner[-1]) + 1)
        return (
            (lambda values: values[run])
            if keys is None
            else (lambda values: dict(zip(keys, values[run], strict=True)))
        )
    parts = [_built(part) for part in inner]
    if keys is None:
        return lambda values: [part(values) for part in parts]
    return lambda values: {key: part(values) for key, part in zip(keys, parts, strict=True)}
