"""The cause of a failure in plain words, from a table that is data (assets/diagnosis.yaml)."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field

from specdecode.escape import clip, line

LONGEST_LINE = 1000
"""Characters that are searched at each end of a line: a failed command stands before its status, and may be longer."""
MOST_SEARCHED = 2 * 1024 * 1024
"""Characters at the end of a text that are searched."""
LONGEST_WORD = 300


class Cause(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    look_in: tuple[str, ...] = Field(alias="in")
    """Kinds of evidence: error, status, logs."""
    pattern: str
    """Regular expression, not case-sensitive. The texts may use `(?P<x>…)` as {x}."""
    cause: str
    reason: str = ""
    """What probably brought it about, if the words of the evidence do not say it themselves."""
    fix: str

    def explain(self, evidence: Mapping[str, str]) -> str | None:
        for kind in self.look_in:
            match = re.search(self.pattern, evidence.get(kind, ""), re.IGNORECASE | re.MULTILINE)
            if match:
                words = {key: clip(line(value or ""), LONGEST_WORD) for key, value in match.groupdict().items()}
                texts = (text.format(**words) for text in (self.cause, self.reason, self.fix) if text)
                return " ".join(texts)
        return None


class Table(BaseModel):
    """All causes. The first that fits is taken, so the more exact ones come first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    causes: tuple[Cause, ...]


@cache
def load_table(path: Path) -> Table:
    return Table.model_validate(yaml.load(path.read_text("utf-8"), yaml.CSafeLoader))


def explain(table: Table, evidence: Mapping[str, str]) -> tuple[str, str]:
    """Name and paragraph of the first cause that fits; else `unknown`.

    Of texts the ends, of lines both ends are searched: a pattern may compare every pair of places in a line, and a pod
    may write one of megabytes.
    """
    evidence = {kind: _searched(text) for kind, text in evidence.items()}
    for row in table.causes:
        text = row.explain(evidence)
        if text is not None:
            return row.name, text.strip()
    return "unknown", "The cause is not in the table of known ones."


def _searched(text: str) -> str:
    return "\n".join(map(_ends, text[-MOST_SEARCHED:].split("\n")))


def _ends(row: str) -> str:
    return row if len(row) <= 2 * LONGEST_LINE else f"{row[:LONGEST_LINE]}\n … {row[-LONGEST_LINE:]}"
