"""Records read back from raw files: many at once, so each takes a fifth of the memory of a new record."""

from array import array
from collections.abc import Iterator, Sequence
from typing import overload

from specdecode.records.record import Chunk, RequestRecord
from specdecode.untrusted import parse_json

_UNKNOWN = -1
LONG = 2**20
"""Bytes of a line above which it is parsed before it is checked."""


class PackedChunks(Sequence[Chunk]):
    """Chunks as columns of numbers, 20 bytes each; a chunk is made when it is asked for."""

    __slots__ = ("_at_s", "_chars", "_reasoning_chars", "_tokens")

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._at_s = array("d", [chunk.at_s for chunk in chunks])
        self._chars = array("i", [chunk.chars for chunk in chunks])
        self._tokens = array("i", [_UNKNOWN if chunk.tokens is None else chunk.tokens for chunk in chunks])
        self._reasoning_chars = array("i", [chunk.reasoning_chars for chunk in chunks])

    def __len__(self) -> int:
        return len(self._at_s)

    @overload
    def __getitem__(self, at: int) -> Chunk: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Chunk, ...]: ...
    def __getitem__(self, at: int | slice) -> Chunk | tuple[Chunk, ...]:
        if isinstance(at, slice):
            return tuple(self._made(index) for index in range(*at.indices(len(self))))
        return self._made(at)

    def __iter__(self) -> Iterator[Chunk]:
        return (self._made(index) for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def _made(self, index: int) -> Chunk:
        tokens = self._tokens[index]
        return Chunk(
            at_s=self._at_s[index],
            chars=self._chars[index],
            tokens=None if tokens == _UNKNOWN else tokens,
            reasoning_chars=self._reasoning_chars[index],
        )


def read_record(line: bytes) -> RequestRecord:
    """The record that a line of a raw file holds. Raises pydantic's ValidationError or Unreadable if it holds none. A
    long line is parsed first: `model_validate_json` keeps a copy of it for each field that it lacks, and 2 KiB for each
    that is unknown (pydantic 2.13).
    """
    if len(line) > LONG:
        record = RequestRecord.model_validate(parse_json(line), extra="ignore")
    else:
        record = RequestRecord.model_validate_json(line)
    return record.model_copy(update={"chunks": PackedChunks(record.chunks)})
