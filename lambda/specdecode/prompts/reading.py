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
from specdecode.untrusted import MAX_FILE_BYTES, in_words, json_lines, parse_json

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
    """The problem of one line, or of one entry of a JSON array; of the whole file if `line` is 0."""

    line: int
    problem: str
    what: str = "line"

    def __str__(self) -> str:
        return f"{self.what} {self.line}: {self.problem}" if self.line else self.problem


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
    seen: dict[str, int] = {}
    is_array = text.lstrip().startswith("[")
    what = "entry" if is_array else "line"
    for at, (line, record) in enumerate(_entries(text, name) if is_array else json_lines(text)):
        try:
            entry = parse_json(record, finite=True)
            if at == 0 and isinstance(entry, dict) and entry.keys() == {"set"}:
                header = Header.model_validate_json(json.dumps(entry["set"]))
                continue
            row = row_of(entry, line=line)
            if row.id in seen:
                raise ValueError(f"id {row.id!r} is that of {what} {seen[row.id]} already")
            seen[row.id] = line
            rows.append(row)
            named.append((row.category, entry.get("category") if isinstance(entry, dict) else None))
        except NoQuestion:
            skipped += 1
        except ValueError as error:
            problems.append(BadLine(line, _said(error), what))
        if len(rows) > MAX_ROWS:
            raise BadPromptSet(name, [BadLine(line, f"more than {MAX_ROWS} prompts: split the file", what)])
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


def _entries(text: str, name: str) -> Iterator[tuple[int, str]]:
    """Number (from 1) and JSON of every entry of one JSON array. Raises BadPromptSet."""
    try:
        entries = [json.dumps(entry) for entry in json.loads(text)]
    except (ValueError, RecursionError) as error:
        why = error if isinstance(error, ValueError) else "nested too deeply"
        raise BadPromptSet(name, [BadLine(0, f"not JSON ({why})")]) from None
    return enumerate(entries, 1)


def _said(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    empty = first["type"] == "string_too_short" or first.get("ctx", {}).get("pattern") == VISIBLE
    said = "is empty" if empty else in_words(first)
    return f"{'.'.join(map(str, first['loc'])) or 'record'}: {said}"
