"""An HTTP/1.1 response, decoded incrementally (RFC 9112): just what one streamed answer on one connection needs.

A client of ours and not a library's, because a load generator must neither sit on bytes nor spend its CPU on
generality: docs/benchmarks.md has the comparison, ADR 197 that with h11.
"""

import re
from enum import Enum, auto

MAX_HEAD_BYTES = 64 * 1024
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\Z", re.DOTALL)
_LENGTH = re.compile(r"[0-9]{1,18}\Z")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: .*)?\Z", re.DOTALL)


class HttpError(ValueError):
    """The server's bytes are no HTTP/1.1 response. `body`: body bytes that came before the error in the last read."""

    body = b""


class _State(Enum):
    HEAD = auto()
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    LENGTH = auto()
    UNTIL_CLOSE = auto()
    DONE = auto()


class ResponseParser:
    """Feed bytes as they arrive, get the body bytes that they hold."""

    __slots__ = ("_remaining", "_rest", "_state", "headers", "status")

    def __init__(self) -> None:
        self.status: int | None = None
        """None until the head is complete."""
        self.headers: dict[str, str] = {}
        """Names in lower case. Of a repeated name, the last value."""
        self._state = _State.HEAD
        self._rest = b""
        self._remaining = 0

    @property
    def complete(self) -> bool:
        """Whether the body ended as its framing says."""
        return self._state is _State.DONE

    def feed(self, data: bytes) -> bytes:
        """Body bytes in `data`. Raises HttpError."""
        body: list[bytes] = []
        try:
            self._feed(self._rest + data if self._rest else data, body)
        except HttpError as error:
            error.body = b"".join(body)
            raise
        return body[0] if len(body) == 1 else b"".join(body)

    def _feed(self, buffer: bytes, body: list[bytes]) -> None:
        self._rest = b""
        position = 0
        while self._state is not _State.DONE:
            if self._state is _State.CHUNK_SIZE:
                position = self._whole_chunks(buffer, position, body)
            if self._state is _State.CHUNK_DATA or self._state is _State.LENGTH:
                piece = buffer[position : position + self._remaining]
                if not piece:
                    break
                body.append(piece)
                position += len(piece)
                self._remaining -= len(piece)
                if self._remaining == 0:
                    self._state = _State.CHUNK_END if self._state is _State.CHUNK_DATA else _State.DONE
            elif self._state is _State.UNTIL_CLOSE:
                body.append(buffer[position:])
                position = len(buffer)
                break
            else:
                end = self._take_delimited(buffer, position)
                if end is None:
                    break
                position = end
        if self._state is not _State.DONE:
            self._rest = buffer[position:]

    def close(self) -> bool:
        """The server closed the connection. Returns whether the body is whole."""
        if self._state is _State.UNTIL_CLOSE:
            self._state = _State.DONE
        return self.complete

    def _whole_chunks(self, buffer: bytes, position: int, body: list[bytes]) -> int:
        """Take all chunks that lie whole in the buffer: the common case, without the states between."""
        while (line_end := buffer.find(b"\r\n", position, position + MAX_HEAD_BYTES + 2)) > 0:
            match = _CHUNK_SIZE.match(buffer, position, line_end)
            if match is None:
                break
            size = int(match[1], 16)
            data_end = line_end + 2 + size
            if size == 0 or buffer[data_end : data_end + 2] != b"\r\n":
                break
            body.append(buffer[line_end + 2 : data_end])
            position = data_end + 2
        return position

    def _take_delimited(self, buffer: bytes, position: int) -> int | None:
        """Read the head, a size line, a chunk's end or a trailer. Returns its end; None if bytes are missing."""
        delimiter = b"\r\n\r\n" if self._state is _State.HEAD else b"\r\n"
        most = position + MAX_HEAD_BYTES + len(delimiter)
        end = buffer.find(delimiter, position, most)
        if end < 0:
            if len(buffer) >= most:
                raise HttpError("the response head or a chunk's size line does not end")
            return None
        line = buffer[position:end]
        if self._state is _State.HEAD:
            self._read_head(line)
        elif self._state is _State.CHUNK_SIZE:
            match = _CHUNK_SIZE.match(line)
            if match is None:
                raise HttpError(f"not a chunk size: {line[:40]!r}")
            self._remaining = int(match[1], 16)
            self._state = _State.CHUNK_DATA if self._remaining else _State.TRAILER
        elif self._state is _State.CHUNK_END:
            if line:
                raise HttpError(f"a chunk is longer than its size says: {line[:40]!r}")
            self._state = _State.CHUNK_SIZE
        elif not line:
            self._state = _State.DONE
        return end + len(delimiter)

    def _read_head(self, head: bytes) -> None:
        status_line, *lines = head.split(b"\r\n")
        match = _STATUS_LINE.match(status_line)
        if match is None:
            raise HttpError(f"not an HTTP/1.1 response: {status_line[:60]!r}")
        status = int(match[1])
        if 100 <= status < 200:
            return
        self.status = status
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise HttpError(f"not a header: {line[:60]!r}")
            self.headers[name.decode("latin-1").lower()] = value.strip().decode("latin-1")
        self._state = self._framing(status)

    def _framing(self, status: int) -> _State:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return _State.CHUNK_SIZE
        length = self.headers.get("content-length")
        if length is None:
            return _State.DONE if status in (204, 304) else _State.UNTIL_CLOSE
        if not _LENGTH.match(length):
            raise HttpError(f"not a content length: {length[:40]!r}")
        self._remaining = int(length)
        return _State.LENGTH if self._remaining else _State.DONE
