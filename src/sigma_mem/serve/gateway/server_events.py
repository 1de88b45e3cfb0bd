"""Server-sent events: the data of each, from bytes as they arrive."""

_LARGEST = 4 * 2**20  # bytes of one event


class EventParser:
    r"""Cuts a stream of bytes into the data of its events; comments and other fields are left out.

    Examples
    --------
    >>> parser = EventParser()
    >>> parser.feed(b": hello\ndata: 1\n\ndata: 2\r\n")
    ['1']
    >>> parser.feed(b"data:3\r\n\r\n")
    ['2\n3']
    """

    def __init__(self) -> None:
        self._rest = b""  # a line that has not ended
        self._data: list[str] = []
        self._size = 0

    def feed(self, part: bytes) -> list[str]:
        """The data of events that end in this part; ValueError for an event that has grown too large."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        found = []
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._size += len(line)
                self._data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
            elif not line and self._data:
                found.append("\n".join(self._data))
                self._data, self._size = [], 0
        if self._size + len(self._rest) > _LARGEST:
            raise ValueError(f"an event of more than {_LARGEST} bytes")
        return found
