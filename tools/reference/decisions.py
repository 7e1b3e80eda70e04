"""The list of decisions in docs/README.md, from the headings of docs/adr."""

import re
from pathlib import Path

from tools.reference import between

DOCS = Path(__file__).resolve().parents[2] / "docs"
HEADING = re.compile(r"# (\d+)\.? (.+)")


def render() -> str:
    rows = []
    for path in sorted((DOCS / "adr").glob("*.md")):
        heading = HEADING.fullmatch(path.read_text().partition("\n")[0].strip())
        if heading is None or int(heading[1]) != int(path.name[:4]):
            raise ValueError(f"{path}: the first line is not `# {int(path.name[:4])}. Title`")
        rows.append(f"- [{int(heading[1])}. {heading[2]}](adr/{path.name})")
    return "\n".join(rows)


def replaced(text: str) -> str:
    """`text` of docs/README.md with the current list."""
    return between(text, "decisions", render())
