"""Reads what comes from outside: so many bytes at most, with typed errors only, never outside its folder (ADR 128)."""

import json
import math
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Most bytes of a file that is read whole: results of other tools, prompts, records of a case."""
MOST_DIGITS = 300
"""Of a whole number: one of more has no float."""
MOST_DOLLARS = 1e6
"""Highest price of an hour of a machine."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_BAD_SEGMENT = re.compile("[\x00-\x1f\x7f\\\\\ud800-\udfff]")
_MAX_KEY_BYTES = 1024
_MAX_NAME_BYTES = 255
"""Most bytes of a name in a folder, as file systems allow."""


class WrongInput(ValueError):
    """What a user gave cannot be used. The message says why, and what to do; the command line ends with it."""

    def document(self) -> dict[str, Any]:
        """What --json has beside the message."""
        return {}


class Unreadable(WrongInput):
    """A file or document is not what it must be."""


def read_file(path: Path, *, limit: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a file. Raises Unreadable if it does not exist, is no file, or is larger than `limit` bytes."""
    with _opened(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(f"larger than {_size(limit)}")
    return data


def read_lines(path: Path, *, limit: int) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of each line that is not empty, of a file of any size. Raises Unreadable if it is no
    file, or a line is longer than `limit` bytes.
    """
    with _opened(path) as file:
        number = 0
        while line := file.readline(limit + 1):
            number += 1
            if len(line) > limit:
                raise Unreadable(f"line {number} is longer than {_size(limit)}")
            if line.strip():
                yield number, line


def edges(path: Path, size: int = 1024) -> tuple[bytes, bytes]:
    """The first and the last `size` bytes of a file, of any size. Raises Unreadable if it is no file."""
    with _opened(path) as file:
        begin = file.read(size)
        file.seek(max(0, file.seek(0, SEEK_END) - size))
        return begin, file.read(size)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The open file. A pipe or a device is refused: it may never end, or never begin."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            what = "a folder, not a file" if path.is_dir() else "no regular file but a pipe or a device"
            raise Unreadable(f"cannot be read: {what}")
        with path.open("rb") as file:
            yield file
    except Unreadable:
        raise
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError) and not path.is_symlink()
        why = "no such file" if missing else f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise Unreadable(why) from None


def read_text(path: Path, *, limit: int = MAX_FILE_BYTES) -> str:
    """A file's text. Raises Unreadable, also if it is not UTF-8."""
    try:
        return read_file(path, limit=limit).decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8 text") from None


def parse_json(data: bytes | str, *, finite: bool = False) -> Any:
    """The value of a JSON document of whole characters. Raises Unreadable.

    NaN and infinities, which JSON does not have and Python writes, become None, or are refused (`finite`).
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = json.loads(
            text,
            parse_constant=_refused if finite else _missing,
            parse_float=_number if finite else _finite,
            parse_int=_whole,
        )
        escaped = "\\u" in text and _LONE_SURROGATE.search(json.dumps(value, ensure_ascii=False))
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Unreadable(f"not JSON ({reason})") from None
    if escaped:
        raise Unreadable("not JSON of whole characters (half a surrogate pair is escaped in it)")
    return value


def in_words(problem: Mapping[str, Any]) -> str:
    """What pydantic says of a field, for people: without its prefix, and without a regular expression."""
    if problem["type"] == "string_pattern_mismatch":
        return "has characters, or a form, that are not allowed here"
    return plain_words(str(problem["msg"]))


def quoted(given: object) -> str:
    """A value in a message: as it is, or '' where nothing was given."""
    return str(given) or "''"


def placed(problem: Mapping[str, Any]) -> str:
    """What pydantic says of a field, behind the field's path."""
    return f"{'.'.join(map(str, problem['loc'])) or 'the document'}: {in_words(problem)}"


_WORDS = {
    r"(Value error|Assertion failed), ": "",
    r"Field required": "is missing",
    r"Extra inputs are not permitted": "is not known here",
    r"(String|Tuple|List|Set|Dictionary) should have ": "must have ",
    r" after validation(, not \d+)?": r"\1",
    r"Input should be ": "must be ",
    r"a valid integer(, .*)?": "a whole number",
    r"a valid number(, .*)?": "a number",
    r"a valid boolean(, .*)?": "true or false",
    r"a valid string": "text",
    r"a valid (list|array|tuple)": "a list",
    r"(a valid dictionary|an object)( or instance of \w+)?": "a mapping of keys to values",
    r"greater than or equal to ([^\s;,]+)": r"\1 or more",
    r"less than or equal to ([^\s;,]+)": r"\1 or less",
    r"greater than ": "more than ",
}


def plain_words(message: str) -> str:
    """A message of pydantic, or one that quotes it, in plain words."""
    for theirs, ours in _WORDS.items():
        message = re.sub(theirs, ours, message, count=1)
    return message


def json_lines(text: str) -> list[tuple[int, str]]:
    """Number (from 1) and content of each line that is not empty. Newlines alone end a line: JSON strings may hold what
    else Python takes for line ends.
    """
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def below(relative: str) -> str:
    """`relative`, if it is the path of a file below any folder, with slashes.

    Raises Unreadable if it is absolute, has `..`, `.`, an empty part, a backslash or a control character, or is too
    long.
    """
    if len(_bytes(relative)) > _MAX_KEY_BYTES or any(
        part in ("", ".", "..") or len(_bytes(part)) > _MAX_NAME_BYTES or _BAD_SEGMENT.search(part)
        for part in relative.split("/")
    ):
        raise Unreadable(f"{relative[:100]!r} is no path below a folder")
    return relative


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refused(text)


def _missing(_: str) -> None:
    return None


def _refused(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _size(limit: int) -> str:
    return f"{limit // 1024} KiB" if limit < 2**20 else f"{limit // 2**20} MiB"
