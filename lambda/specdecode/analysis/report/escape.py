"""Text from models, servers and users is never trusted: every format's own way to defuse it."""

from __future__ import annotations

import json
import re
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~&$^:@])")


def plain(text: str) -> str:
    r"""Without control characters, ANSI escapes and bidirectional overrides: each becomes visible (`\x1b`)."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def line(text: str) -> str:
    r"""One line of plain text: newlines and tabs as `\n` and `\t`."""
    return plain(text.replace("\r\n", "\n").replace("\n", "\\n").replace("\t", "\\t"))


def markdown(text: str) -> str:
    """Inline Markdown that renders as the text itself, also inside a table cell."""
    return _MARKDOWN.sub(r"\\\1", line(text))


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula (a leading apostrophe where it would)."""
    cleaned = line(text)
    return f"'{cleaned}" if cleaned[:1] in {"=", "+", "-", "@"} else cleaned


def script_json(value: Any) -> str:
    """JSON for a <script> element: nothing in it can end the element or start a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
