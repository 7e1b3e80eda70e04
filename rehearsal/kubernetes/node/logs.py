"""Container logs: a file for each run of a container, in the kubelet's format (time, stream, F, line), and the log
API.
"""

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from rehearsal.kubernetes import errors

_LIMIT = 10 * 1024 * 1024


class ContainerLog:
    """The log of one run of a container. Past 10 MiB the older half is dropped, as the kubelet's rotation does. `taken`
    gets every line.
    """

    def __init__(self, path: Path, *, taken: Callable[[bytes], None] = lambda line: None) -> None:
        self._taken = taken
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("wb")
        self._size = 0
        self.closed = False
        self._grown = asyncio.Event()

    def line(self, text: bytes) -> None:
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()
        entry = stamp + b" stdout F " + text.rstrip(b"\n") + b"\n"
        self._file.write(entry)
        self._file.flush()
        self._size += len(entry)
        self._taken(text)
        if self._size > _LIMIT:
            self._rotate()
        self._grown.set()

    def _rotate(self) -> None:
        kept = self.path.read_bytes()[-_LIMIT // 2 :]
        kept = kept[kept.index(b"\n") + 1 :]
        self._file.close()
        self._file = self.path.open("wb")
        self._file.write(kept)
        self._file.flush()
        self._size = len(kept)

    def tail(self) -> str:
        """The end of the output, 80 lines and 2 KiB at most, without the kubelet's prefixes."""
        texts = [line.split(b" ", 3)[3] for line in self.path.read_bytes().splitlines()[-80:]]
        return b"\n".join(texts)[-2048:].decode(errors="replace")

    def close(self) -> None:
        self._file.close()
        self.closed = True
        self._grown.set()

    async def grown(self) -> None:
        """Wait for the next line or the end."""
        self._grown.clear()
        if not self.closed:
            await self._grown.wait()


def _shown(line: bytes, timestamps: bool) -> bytes:
    stamp, _, rest = line.partition(b" ")
    text = rest.split(b" ", 2)[2]
    return (stamp + b" " + text if timestamps else text) + b"\n"


async def read(log: ContainerLog, query: Mapping[str, str]) -> AsyncIterator[bytes]:
    """The bytes that a log request gets: tailLines, timestamps, limitBytes, follow.

    Raises 400 if the request asks for less by time (sinceSeconds, sinceTime): the rehearsal cannot do that.
    """
    for name in ("sinceSeconds", "sinceTime"):
        if name in query:
            raise errors.bad_request(f"{name}: the rehearsal cannot do this")
    timestamps = query.get("timestamps") == "true"
    limit = _number(query, "limitBytes") if "limitBytes" in query else None
    data = log.path.read_bytes()
    lines = [_shown(line, timestamps) for line in data.splitlines()]
    if "tailLines" in query:
        tail = _number(query, "tailLines")
        lines = lines[-tail:] if tail else []
    text = b"".join(lines)
    if limit is not None:
        yield text[:limit]
        return
    yield text
    at = len(data)
    while query.get("follow") == "true":
        data = log.path.read_bytes()
        if len(data) < at:
            at = 0
        fresh = [_shown(line, timestamps) for line in data[at:].splitlines()]
        at = len(data)
        if fresh:
            yield b"".join(fresh)
        elif log.closed:
            return
        else:
            await log.grown()


def _number(query: Mapping[str, str], name: str) -> int:
    try:
        return int(query[name])
    except ValueError:
        raise errors.bad_request(f"{name} must be a number, not {query[name]!r}") from None
