"""Draws a finished run as the pictures of the documentation, and keeps its page.

`python -m tests.specdecode.analysis.report_picture RUN_FOLDER [LOG]` writes, of a run of several loads,
docs/images/load.png (the first charts over the load). Of any other: report.png (the first screen), report-questions.png
(what follows), what `report` and `advise` print (terminal-report.png, terminal-advise.png), with the LOG that
`make rehearse` printed terminal-rehearse.png, and docs/samples/rehearsal.html. docs/images/report.json says what drew
each: a test compares that with what draws now.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.specdecode.analysis.browser import Page, visit

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "docs" / "images"
OF_REPORT = "lambda/specdecode/analysis/report"
PAGE = ("assets/report", f"{OF_REPORT}/sections.py", f"{OF_REPORT}/page.py", f"{OF_REPORT}/tiles.py")
DRAWN_BY = {
    "dashboard.png": ("constructs_lib/observability",),
    "terminal-report.png": (f"{OF_REPORT}/sections.py", f"{OF_REPORT}/terminal.py"),
    "terminal-advise.png": ("lambda/specdecode/cli/report_view.py",),
    "terminal-rehearse.png": ("rehearsal/console.py",),
}
"""What makes a picture look as it does, of those that are not the page. Sentences may change without new pictures."""
TEXT = {".py", ".j2", ".css", ".js"}
STAMP = "report.json"
WIDTH = 1200
CURVE = """(() => { const all = document.querySelector('#curve-1'); if (!all) return null
  const ends = [...all.querySelectorAll('figure')].slice(0, 3).map(each => each.getBoundingClientRect().bottom)
  return [all.previousElementSibling.getBoundingClientRect().top + scrollY - 10,
    Math.max(...ends) + scrollY - 16] })()"""
ANSWER = "[0, document.querySelector('.answer').getBoundingClientRect().bottom + scrollY]"
ASKED = (
    "['toc', 'load'].map(name => document.querySelector(`#${name}, .${name}`).getBoundingClientRect().top + scrollY)"
)
ABOVE = 20
"""Pixels of the page above and below what is shown."""


TERMINAL = (
    "<!doctype html><style>body{margin:0;background:#16191d;color:#e4e7ea}pre{margin:0;padding:16px 20px;width:max-"
    "content;font:14px/1.4 monospace}b{color:#8fb8ff}.c1{font-weight:700}.c32{color:#6fd598}.c31{color:#ff9d92}"
    ".c33{color:#f0c36c}</style><pre>"
)
COMMANDS = {"terminal-report.png": ("report", "{run}"), "terminal-advise.png": ("advise", "{run}")}
COLUMNS = 110


def drawn_by(name: str) -> str:
    """SHA-256 of what draws the picture `name`, without what is vendored."""
    found = [path for each in DRAWN_BY.get(name, PAGE) for path in [ROOT / each, *sorted((ROOT / each).rglob("*"))]]
    told = hashlib.sha256()
    for path in (path for path in found if path.suffix in TEXT and "vendor" not in path.parts):
        told.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return told.hexdigest()


def stamp(made: Iterable[Path], images: Path = IMAGES) -> None:
    """Note what drew the pictures."""
    path = images / STAMP
    known = json.loads(path.read_text()) if path.exists() else {}
    known |= {each.name: drawn_by(each.name) for each in made}
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def printed(run: Path, log: Path | None) -> dict[str, str]:
    """Picture -> what the terminal shows."""
    found = {}
    for name, words in COMMANDS.items():
        given = [word.format(run=run) for word in words]
        command = [str(Path(sys.executable).with_name("specdecode")), *given]
        out = subprocess.run(
            command, env={"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}, capture_output=True, text=True, check=True
        )
        found[name] = f"$ specdecode {words[0]} results/{run.name}\n{out.stdout}"
    if log:
        text = log.read_text(encoding="utf-8")
        found["terminal-rehearse.png"] = f"$ make rehearse\n{text.partition(chr(10) * 2)[0]}"
    return found


def as_page(text: str) -> str:
    """A terminal's text as HTML, with its colours."""
    shown = re.sub(r"\x1b\[0?m", "</span>", html.escape(text).rstrip())
    return TERMINAL + re.sub(r"\x1b\[(\d+)m", r'<span class="c\1">', shown) + "</pre>"


def draw(folder: Path, docs: Path = ROOT / "docs", texts: Mapping[str, str] | None = None) -> list[Path]:
    """The pictures of the run in `folder` (with its report.html); `texts`: of a terminal, by picture. Raises
    RuntimeError without a Chromium.
    """
    images = docs / "images"

    async def steps(page: Page) -> list[Path]:
        await page.open(folder.resolve() / "report.html", width=WIDTH, height=1000)
        curve = await page.evaluate(CURVE)
        shown = {"load.png": curve} if curve else {}
        if not curve:
            shown = {"report.png": await page.evaluate(ANSWER), "report-questions.png": await page.evaluate(ASKED)}
        for name, (top, end) in shown.items():
            begin = max(0, top - ABOVE)
            clip = {"x": 0, "y": begin, "width": WIDTH, "height": end + ABOVE - begin}
            await page.screenshot(images / name, clip=clip)
        for name, text in (texts or {}).items():
            source = Path(profile) / "terminal.html"
            source.write_text(as_page(text), encoding="utf-8")
            await page.open(source, width=WIDTH, height=1000)
            size = "(r => [r.width, r.height])(document.querySelector('pre').getBoundingClientRect())"
            width, height = await page.evaluate(size)
            await page.screenshot(images / name, clip={"x": 0, "y": 0, "width": width, "height": height})
        return [images / name for name in (*shown, *(texts or {}))]

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        made = visit(Path(profile), steps)
    if images / "report.png" in made:
        made.append(docs / "samples" / "rehearsal.html")
        page = (folder / "report.html").read_text(encoding="utf-8")
        made[-1].write_text(re.sub(r"<details><summary>Raw files.*?</details>", "", page, flags=re.S), encoding="utf-8")
    stamp(made, images)
    return made


def main() -> None:
    """The pictures of a run; those of a terminal too if it has one load."""
    run = Path(sys.argv[1])
    log = Path(sys.argv[2]) if sys.argv[2:] else None
    several = 'id="curve-1"' in (run / "report.html").read_text(encoding="utf-8")
    print(*draw(run, texts={} if several else printed(run, log)), sep="\n")


if __name__ == "__main__":
    main()
