"""Natural text that every Python brings along: the standard library's documentation (PSF licence)."""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from pathlib import Path

_EXCLUDED = ("/test", "site-packages", "idlelib", "lib2to3", "pydoc_data")
_SHORTEST = 120
_HELD_OUT = 20
"""One document in this many is kept out of training."""


def documents() -> tuple[list[str], list[str]]:
    """Training and held-out documents: pydoc's topics and the docstrings of the standard library, ASCII only."""
    from pydoc_data.topics import topics

    texts = list(topics.values())
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted([*library.glob("*.py"), *library.glob("[a-z]*/*.py")]):
        if not any(part in str(path) for part in _EXCLUDED):
            texts += _docstrings(path)
    texts = [re.sub(r"[^\x00-\x7f]", "", re.sub(r" {3,}", "    ", text)) for text in texts]
    random.Random(5).shuffle(texts)
    count = len(texts) // _HELD_OUT
    return texts[count:], texts[:count]


def _docstrings(path: Path) -> list[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return []
    nodes = (n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef))
    found = (ast.get_docstring(node) for node in nodes)
    return [text for text in found if text and len(text) > _SHORTEST]
