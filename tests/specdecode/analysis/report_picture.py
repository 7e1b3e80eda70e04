"""Draws a finished run's report as the pictures of the documentation, and keeps its page.

`python -m tests.specdecode.analysis.report_picture RUN_FOLDER` writes, of a run of several loads, docs/images/load.png
(the first charts over the load); of any other docs/images/report.png (the first screen), report-questions.png beside it
(what follows), and docs/samples/rehearsal.html. docs/images/report.json says what drew each: a test compares that with
what draws now.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path

from tests.specdecode.analysis.browser import Page, visit

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "docs" / "images"
OF_REPORT = "lambda/specdecode/analysis/report"
DRAWN_BY = ("assets/report", f"{OF_REPORT}/sections.py", f"{OF_REPORT}/page.py", f"{OF_REPORT}/tiles.py")
"""What makes the page look as it does; its sentences may change without new pictures."""
TEXT = {".py", ".j2", ".css", ".js"}
STAMP = "report.json"
WIDTH = 1200
CURVE = """(() => { const all = document.querySelector('#curve-1'); if (!all) return null
  const ends = [...all.querySelectorAll('figure')].slice(0, 3).map(each => each.getBoundingClientRect().bottom)
  return [all.getBoundingClientRect().top + scrollY, Math.max(...ends) + scrollY] })()"""
ANSWER = "[0, document.querySelector('.answer').getBoundingClientRect().bottom + scrollY]"
ASKED = (
    "['toc', 'load'].map(name => document.querySelector(`#${name}, .${name}`).getBoundingClientRect().top + scrollY)"
)
ABOVE = 20
"""Pixels of the page above and below what is shown."""


def drawn_by() -> str:
    """SHA-256 of what draws the page, without what is vendored."""
    found = [path for name in DRAWN_BY for path in [ROOT / name, *sorted((ROOT / name).rglob("*"))]]
    files = [path for path in found if path.suffix in TEXT]
    told = hashlib.sha256()
    for path in files:
        if "vendor" not in path.parts:
            told.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return told.hexdigest()


def draw(folder: Path, docs: Path = ROOT / "docs") -> list[Path]:
    """The pictures of the run in `folder` (with its report.html). Raises RuntimeError without a Chromium."""
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
        return [images / name for name in shown]

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        made = visit(Path(profile), steps)
    if len(made) > 1:
        made.append(docs / "samples" / "rehearsal.html")
        page = (folder / "report.html").read_text(encoding="utf-8")
        made[-1].write_text(re.sub(r"<details><summary>Raw files.*?</details>", "", page, flags=re.S), encoding="utf-8")
    stamp = images / STAMP
    known = json.loads(stamp.read_text()) if stamp.exists() else {}
    known |= {path.name: drawn_by() for path in made}
    stamp.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return made


if __name__ == "__main__":
    print(*draw(Path(sys.argv[1])), sep="\n")
