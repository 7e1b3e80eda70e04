"""Makes text from models, servers, clusters and users safe to show, for each kind of output (ADR 128).

The template engine escapes HTML (analysis/report/html.py), and manifests/pods.py escapes the shell of pods.
"""

import codecs
import io
import json
import re
from typing import Any, TextIO

_UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline: ANSI begins with one
    "\xad\u061c\u180e\u200e\u200f\u2028-\u202e\u2061-\u206f\ufeff\ufff9-\ufffb"  # invisible, or turns text around
    "\ud800-\udfff"  # halves of a pair: no encoding takes them
    "\U000e0000-\U000e007f"  # invisible copies of ASCII
)
_CONTROL = re.compile(f"[{_UNSAFE}]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~&$^:@=])")
_FORMULA = tuple("=+-@＝＋－＠")
_CUT = "… (cut)"
_ASCII = {
    **dict.fromkeys("│┃║", "|"),
    **dict.fromkeys("─━═", "-"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼┏┓┗┛┡┩╇┢┪╈┳┻╋┠┨┯┷╭╮╰╯╞╡╪", "+"),
    **{
        "×": "x",
        "–": "-",
        "—": "-",
        "→": "->",
        "…": "...",
        "✓": "ok",
        "✗": "x",
        "±": "+-",
        "≥": ">=",
        "≤": "<=",
        "·": "*",
    },
    **dict.fromkeys("’‘", "'"),
    **dict.fromkeys("“”", '"'),
}
"""The characters beyond ASCII in our own texts and tables, with their spelling in ASCII."""


def plain(text: str) -> str:
    r"""The text without control characters, ANSI escapes, bidirectional overrides and lone surrogates. Each becomes
    visible (`\x1b`, `\u202e`). Newlines and tabs stay.
    """
    return _CONTROL.sub(_visible, text)


def line(text: str) -> str:
    r"""One line of plain text: newlines and tabs as `\n` and `\t`."""
    return plain(text.replace("\r\n", "\n").replace("\n", "\\n").replace("\t", "\\t"))


def counted(number: int, noun: str) -> str:
    """`1 arm`, `2 arms`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def clip(text: str, limit: int) -> str:
    """At most `limit` characters, with a mark if something was cut off."""
    return text if len(text) <= limit else text[: max(0, limit - len(_CUT))] + _CUT


def markdown(text: str) -> str:
    """Inline Markdown that renders as the text itself, even in a table cell."""
    return _MARKDOWN.sub(r"\\\1", line(text))


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula. It gets a leading apostrophe if it would be one."""
    cleaned = line(text)
    return f"'{cleaned}" if cleaned.lstrip().startswith(_FORMULA) else cleaned


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON that a terminal can show: characters that `plain` makes visible become JSON escapes."""
    return plain_json(json.dumps(value, indent=indent, ensure_ascii=False))


def plain_json(document: str) -> str:
    """The same JSON document, with JSON escapes for characters that `plain` makes visible."""
    return _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], document)


def script_json(value: Any) -> str:
    """JSON for a <script> element: nothing in it can end the element or start a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def spell_out(stream: TextIO) -> None:
    """Let `stream` accept characters that its encoding lacks: they are written in ASCII, or as an escape."""
    codecs.register_error("spelled", _spelled)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="spelled")


def _spelled(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_ASCII.get(sign) or sign.encode("ascii", "backslashreplace").decode() for sign in signs), error.end


def _visible(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
