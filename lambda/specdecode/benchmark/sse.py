"""Server-sent events, decoded incrementally (WHATWG HTML, section 9.2.6). An event may be cut anywhere between two
reads.
"""

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Longest event that is accepted. A server whose event never ends is broken."""

LINE_COST = 64
"""Bytes that a line of an event counts beside its data: about what Python needs to keep it."""

_BOM = b"\xef\xbb\xbf"


class EventTooLong(ValueError):
    """An event grew past MAX_EVENT_BYTES."""


def _is_one_event(data: bytes) -> bool:
    """Whether the bytes are exactly one event of one line, as in nearly all reads."""
    return (
        data.startswith(b"data: ")
        and data.endswith(b"\n\n")
        and data.find(b"\n") == len(data) - 2
        and b"\r" not in data
    )


class SseParser:
    """Feed bytes as they arrive, get the data of each event that became complete.

    Lines end in CR LF, LF or CR; comments, `event:`, `id:` and `retry:` carry nothing for us and are dropped.
    """

    __slots__ = ("_after_cr", "_data", "_size", "_started", "_tail")

    def __init__(self) -> None:
        self._tail = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._started = False

    def feed(self, data: bytes) -> list[bytes]:
        """Data of the events that `data` completes, in order. Raises EventTooLong."""
        if self._between_events and _is_one_event(data):
            return [data[6:-2]]
        if self._after_cr or b"\r" in data:
            data = self._with_lf_only(data)
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._tail:
            lines[0] = bytes(self._tail) + lines[0]
            self._tail.clear()
        events: list[bytes] = []
        for line in lines:
            self._take_line(line, events)
        self._tail += rest
        self._refuse_beyond(self._size + len(self._tail))
        return events

    @property
    def _between_events(self) -> bool:
        return self._started and not (self._tail or self._data or self._after_cr)

    def finish(self) -> list[bytes]:
        """The event whose lines are complete but whose closing blank line is missing. An incomplete line is dropped."""
        events: list[bytes] = []
        self._take_line(b"", events)
        return events

    def _take_line(self, line: bytes, events: list[bytes]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
                self._size = 0
        elif line.startswith(b"data:"):
            self._keep(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line == b"data":
            self._keep(b"")

    def _keep(self, data: bytes) -> None:
        self._data.append(data)
        self._size += len(data) + LINE_COST
        self._refuse_beyond(self._size)

    def _refuse_beyond(self, size: int) -> None:
        if size > MAX_EVENT_BYTES:
            raise EventTooLong(f"an event is longer than {MAX_EVENT_BYTES} bytes")

    def _with_lf_only(self, data: bytes) -> bytes:
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
        if data:
            self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
