"""What benchmarks share: their results, tables in the documentation, and the command line of simulations."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SIMULATIONS = "reference/simulations.md"


def measure_and_publish(
    *,
    name: str,
    about: str | None,
    runs: int,
    measure: Callable[[int], dict[str, Any]],
    table: Callable[[dict[str, Any]], str],
    page: str = SIMULATIONS,
) -> None:
    """Print the table of benchmarks/NAME.py; with `--write` put it into docs/PAGE, and the figures into
    results/NAME.json.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    results = measure(given.runs)
    print(table(results))
    if given.write:
        save(name, results)
        publish(name, table(results), page=page)


def results_of(name: str) -> Path:
    """The file of a benchmark's figures."""
    return ROOT / "benchmarks" / "results" / f"{name}.json"


def save(name: str, results: Any) -> None:
    """Put the figures into results/NAME.json."""
    results_of(name).write_text(json.dumps(results, indent=1) + "\n")


def publish(name: str, table: str, *, page: str = SIMULATIONS) -> None:
    """Put the table of benchmarks/NAME.py between its marks in docs/PAGE."""
    document, begin, end = ROOT / "docs" / page, mark("table of", name), mark("end of", name)
    before, rest = document.read_text().split(begin)
    document.write_text(f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}")


def mark(what: str, name: str) -> str:
    """Where the table of benchmarks/NAME.py begins or ends in a page."""
    return f"<!-- {what} benchmarks/{name}.py -->"


def machine() -> dict[str, Any]:
    """The machine that the figures are of."""
    return {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()}
