"""From the bytes of a file to a PromptSet: read as a whole, or refused with one line for each problem."""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from specdecode.prompts.categories import Named, told_apart
from specdecode.prompts.formats import NoQuestion, row_of
from specdecode.prompts.prompt_set import VISIBLE, PromptRow, PromptSet, SetName
from specdecode.untrusted import MAX_FILE_BYTES, Unreadable, in_words, json_lines, parse_json

MAX_ROWS = 200_000
SHOWN = 20
"""Most bad lines that a message names."""
PARQUET = b"PAR1"
FROM_PARQUET = (
    "python -c \"import pandas; pandas.read_parquet('FILE').to_json('prompts.jsonl', orient='records', lines=True)\""
)
"""Tried with pandas 3.1.1 and pyarrow 26.0.1 on a file with SPEED-Bench's columns: lists of turns stay lists."""

FROM_ARRAY = "import json; json.dump(json.load(open('FILE'))[:10000], open('part.json', 'w'))"


class BadLine(NamedTuple):
    """The problem of one line, or of one entry of a JSON array, with the line on which it begins."""

    line: int
    problem: str
    entry: int = 0
    """Number of the entry in an array, from 1."""

    def __str__(self) -> str:
        entry = f", entry {self.entry}" if self.entry else ""
        return f"line {self.line}{entry}: {self.problem}" if self.line else self.problem


class BadPromptSet(ValueError):
    """The file is no set of prompts. Holds all its problems, each with its line."""

    def __init__(self, name: str, problems: list[BadLine]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in problems[:SHOWN]]
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        self.told = "\n".join([*lines, *more])
        super().__init__(f"{name}: {self.told}")


class Header(BaseModel):
    """First line of a file of our own format: `{"set": {"name": …, "version": …, "licence": …}}`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: SetName
    version: str = ""
    licence: str = ""
    structured: tuple[SetName, ...] = ()


def digest(data: bytes) -> str:
    """The hash by which a set is named: SHA-256 of the file, as `sha256sum` prints it."""
    return sha256(data).hexdigest()


def set_name(stem: str) -> str:
    """A file's name as a set's: lower case, other characters as hyphens."""
    return re.sub(r"[^a-z0-9.]+", "-", stem.lower()).strip("-.")[:40].strip("-.") or "prompts"


def read_set(data: bytes, *, name: str) -> PromptSet:
    """The set in a file's bytes, called `name` unless its header says otherwise. Raises BadPromptSet. JSON Lines, or
    one JSON array (ShareGPT). Each record is read by the keys that it has (`formats.row_of`).
    """
    text = _text(data, name)
    header, skipped = Header(name=name), 0
    rows: list[PromptRow] = []
    named: list[Named] = []
    problems: list[BadLine] = []
    seen: dict[str, str] = {}
    is_array = text.lstrip().startswith("[")  # its entries may share a line: those without an id are numbered
    for number, (line, entry) in enumerate(_records(text)):
        at = number + 1 if is_array else 0
        try:
            if isinstance(entry, Exception):
                raise entry
            if number == 0 and isinstance(entry, dict) and entry.keys() == {"set"}:
                header = Header.model_validate_json(json.dumps(entry["set"]))
                continue
            row = row_of(entry, line=at or line)
            if row.id in seen:
                raise ValueError(f"id {row.id!r} is that of {seen[row.id]} already")
            seen[row.id] = f"line {line}, entry {at}" if is_array else f"line {line}"
            rows.append(row)
            named.append((row.category, entry.get("category") if isinstance(entry, dict) else None))
        except NoQuestion:
            skipped += 1
        except ValueError as error:
            problems.append(BadLine(line, _said(error), at))
        if len(rows) > MAX_ROWS:
            raise BadPromptSet(name, [BadLine(line, f"more than {MAX_ROWS} prompts: split the file")])
    if problems:
        raise BadPromptSet(name, problems)
    if not rows:
        passed = f" but {skipped} conversations without a question, or with an empty one" if skipped else ""
        fix = "`specdecode prompts check --help` shows the formats"
        raise BadPromptSet(name, [BadLine(0, f"no prompt in it{passed} ({fix})")])
    other = told_apart(named)
    rows = [
        row.model_copy(update={"category": other[its]}) if its in other else row
        for row, its in zip(rows, named, strict=True)
    ]
    found = {row.category for row in rows}
    if unknown := [category for category in header.structured if category not in found]:
        raise BadPromptSet(name, [BadLine(1, f"structured: no prompt is of category {', '.join(unknown)}")])
    labels = tuple((own, label or "") for (_, label), own in other.items())
    known: dict[str, Any] = {**header.model_dump(), "sha256": digest(data), "skipped": skipped, "labels": labels}
    try:
        return PromptSet(rows=tuple(rows), **known)
    except ValidationError as error:
        raise BadPromptSet(name, [BadLine(1, _said(error))]) from None


def _text(data: bytes, name: str) -> str:
    if data.startswith(PARQUET):
        fix = f"make JSON Lines of it, with the packages pandas and pyarrow: {FROM_PARQUET}"
        raise BadPromptSet(name, [BadLine(0, f"a Parquet file, which is not read here: {fix}")])
    if len(data) > MAX_FILE_BYTES:
        is_array = data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        fix = f'python -c "{FROM_ARRAY}"' if is_array else "head -n 10000 FILE > part.jsonl"
        raise BadPromptSet(name, [BadLine(0, f"larger than {MAX_FILE_BYTES // 2**20} MiB: take a part of it: {fix}")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadPromptSet(name, [BadLine(line, "not UTF-8 text")]) from None


def _records(text: str) -> Iterator[tuple[int, Any]]:
    """Line (from 1) and value of every record; or the error, if the record is no JSON."""
    if text.lstrip().startswith("["):
        yield from _array(text)
        return
    for number, line in json_lines(text):
        try:
            yield number, parse_json(line, finite=True)
        except Unreadable as error:
            yield number, error


def _array(text: str) -> Iterator[tuple[int, Any]]:
    """The entries of one JSON array, each with the line that it begins on."""
    decoder, at, line, counted = json.JSONDecoder(), text.index("[") + 1, 1, 0
    separator = re.compile(r"\s*")
    while True:
        at = separator.match(text, at).end()  # type: ignore[union-attr]
        line, counted = line + text.count("\n", counted, at), at
        if text[at : at + 1] == "]" and not text[at + 1 :].strip():
            return
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            yield line, Unreadable(f"not JSON ({error if isinstance(error, ValueError) else 'nested too deeply'})")
            return
        try:
            yield line, parse_json(text[at:end], finite=True)
        except Unreadable as error:
            yield line, error
        at = separator.match(text, end).end()  # type: ignore[union-attr]
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != "]":
            yield line, Unreadable("not JSON (the array goes on without a comma, or never ends)")
            return


def _said(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    empty = first["type"] == "string_too_short" or first.get("ctx", {}).get("pattern") == VISIBLE
    said = "is empty" if empty else in_words(first)
    return f"{'.'.join(map(str, first['loc'])) or 'record'}: {said}"
