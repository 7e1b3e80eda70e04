"""What simulations share: `--runs`, `--write`, and their tables in the documentation."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def measure_and_publish(
    *,
    name: str,
    about: str | None,
    runs: int,
    measure: Callable[[int], dict[str, Any]],
    table: Callable[[dict[str, Any]], str],
    begin: str,
    end: str,
    page: str = "explanation/how-sure.md",
) -> None:
    """Print the table; with `--write` put the figures into results/NAME.json, the table between `begin` and `end` of
    docs/PAGE.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    results = measure(given.runs)
    print(table(results))
    if given.write:
        (ROOT / "benchmarks" / "results" / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
        document = ROOT / "docs" / page
        before, rest = document.read_text().split(begin)
        document.write_text(f"{before}{begin}\n\n{table(results)}\n\n{end}{rest.split(end)[1]}")
