"""The Markdown files of the repository: their code blocks, links and anchors."""

import ast
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("rehearsal/**/*.md"),
        *ROOT.glob("assets/**/*.md"),
    ]
)
FENCE = re.compile(r"^ *(`{3,}|~{3,}) *([\w-]*)")


@dataclass(frozen=True)
class Block:
    """A code block: fenced (`language` maybe empty) or indented by four columns (`language` None)."""

    page: Path
    line: int
    language: str | None
    text: str

    @property
    def id(self) -> str:
        """Where it is: `docs/operations.md:41`."""
        return f"{name(self.page)}:{self.line}"


def name(page: Path) -> str:
    """The page's path from the repository's root."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """The page's code blocks, in order."""
    return [item for item in _parts(page) if isinstance(item, Block)]


def prose(page: Path) -> str:
    text = "\n".join(item for item in _parts(page) if isinstance(item, str))
    return re.sub(r"<!--.*?-->", "", re.sub(r"`[^`\n]*`", lambda m: "`" * len(m[0]), text), flags=re.DOTALL)


def _parts(page: Path) -> list[Block | str]:
    """Lines of prose, and code blocks in their place."""
    parts: list[Block | str] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    number, blank = 0, True
    while number < len(lines):
        line, start = lines[number], number + 1
        fence = FENCE.match(line)
        if fence:
            end = next(n for n in range(start, len(lines)) if lines[n].strip() == fence[1])
            body = lines[start:end]
            number = end + 1
            parts.append(Block(page, start, fence[2], _dedent(body)))
        elif blank and line.startswith("    ") and line.strip():
            end = number
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            parts.append(Block(page, start, None, _dedent(lines[number:end])))
            number = end
        else:
            parts.append(line)
            number += 1
        blank = number == 0 or not lines[number - 1].strip()
    return parts


def _dedent(lines: list[str]) -> str:
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] for line in lines).strip("\n") + "\n"


def links(page: Path) -> list[str]:
    """Targets of the links and images in the page's prose."""
    text = prose(page)
    return re.findall(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)", text) + re.findall(r'<img src="([^"]+)"', text)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the page's headings."""
    seen: Counter[str] = Counter()
    found = set()
    for item in _parts(page):
        heading = re.match(r"#{1,6} +(.+?) *#*$", item) if isinstance(item, str) else None
        if heading:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def exists(test: str) -> bool:
    """Whether there is a test `tests/x.py::test_y`, or any in a file `tests/x.py`."""
    path, _, name_of = test.partition("::")
    return name_of in named_tests(path) if name_of else bool(named_tests(path))


def named_tests(path: str) -> set[str]:
    """The test functions of a file, whose path is from the repository's root."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test_")}
