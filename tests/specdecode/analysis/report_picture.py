"""Draws a finished run's report as the pictures of the README.

`python -m tests.specdecode.analysis.report_picture RUN_FOLDER` writes docs/images/load.png of a run of several loads
(the curve, without its table) and docs/images/report.png of any other (its answer, down to the tiles).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.specdecode.analysis.browser import Page, visit

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"
CURVE = "document.querySelector('section[aria-labelledby=\"curve-1\"]')"


class Clip(NamedTuple):
    """A part of the page, in CSS pixels."""

    x: float
    y: float
    width: float
    height: float


WIDTH = 1200
TILES = "document.querySelector('.tile').parentElement.getBoundingClientRect().bottom + scrollY"
ABOVE = 20
"""Pixels of the page above and below what is shown."""


def draw(folder: Path, images: Path = IMAGES) -> Path:
    """The picture of the run in `folder` (with its report.html). Raises RuntimeError without a Chromium."""

    async def steps(page: Page) -> Path:
        await page.open(folder.resolve() / "report.html", width=WIDTH, height=1000)
        found = await page.evaluate(
            f"(() => {{const s = {CURVE}; if (!s) return null; const top = s.getBoundingClientRect().top + scrollY;"
            "const ends = [...s.querySelectorAll('figure')].slice(0, 3).map(f => f.getBoundingClientRect().bottom);"
            "return [top, Math.max(...ends) + scrollY]})()"
        )
        top, end = found or (ABOVE, await page.evaluate(TILES))
        clip = Clip(0, top - ABOVE, WIDTH, end - top + 2 * ABOVE)
        target = images / ("load.png" if found else "report.png")
        await page.screenshot(target, clip=clip._asdict())
        return target

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        return visit(Path(profile), steps)


if __name__ == "__main__":
    print(draw(Path(sys.argv[1])))
