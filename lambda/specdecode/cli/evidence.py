"""`specdecode evidence`: measured costs of steps, with their sources; yours, and those of others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdecode.cli.options import RESULTS, AsJson, Runs
from specdecode.cli.output import answer, complain, say, say_document, stop_with, text_table
from specdecode.escape import clip, counted, line
from specdecode.untrusted import placed

if TYPE_CHECKING:
    from specdecode.speculation.step_cost import StepCost

ADDED = "evidence.yaml"
"""Beside your runs: rows that others gave you."""
LONGEST = 60
"""Characters of a source in the table."""

app = typer.Typer(
    name="evidence",
    help="Measured costs of steps, from which forecasts come. `specdecode evidence COMMAND --help` says more.",
    no_args_is_help=True,
)


def list_rows(runs: Runs = RESULTS, as_json: AsJson = False) -> None:
    """List every row: what ships, what was added, and what your finished runs measured."""
    from specdecode.speculation.step_cost import published

    rows = [*published(), *own_rows(runs)]
    head = ("target", "draft", "engine", "k", "at a time", "tokens per step", "speed-up", "step", "source")
    shown = [head]
    for row in rows:
        tokens, speedup, source = row.tokens_per_step, row.speedup, clip(line(row.source), LONGEST)
        found = (str(row.k), f"{row.concurrency:g}", f"{tokens:.2f}" if tokens else "-", f"{speedup:.2f}x")
        step = f"{tokens / speedup:.2f}x" if tokens else "bounded"
        shown.append((line(row.target), line(row.draft), line(row.engine), *found, step, source))
    answer(as_json, [row.model_dump(mode="json") for row in rows], lambda: text_table(shown, left=3))


def add(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows that `specdecode evidence export` printed.")],
    runs: Runs = RESULTS,
) -> None:
    """Add rows that somebody gave you. They count as theirs: forecasts use them, and widen for the other setup."""
    from specdecode.benchmark.results import replace_file
    from specdecode.cli.written_files import naming

    found, kept = _of_file(file), runs / ADDED
    have = _of_file(kept) if kept.exists() else []
    new = [row for row in found if row not in have]
    runs.mkdir(parents=True, exist_ok=True)
    with naming(kept):
        replace_file(kept, _yaml([*have, *new]).encode())
    say(f"{kept}: {counted(len(new), 'row')} added, {len(found) - len(new)} there before")


def export(runs: Runs = RESULTS) -> None:
    """Print the rows of your finished runs, to share: names and sizes of models, figures, and no text."""
    say_document(_yaml(_of_runs(runs)))


def own_rows(runs: Path) -> list[StepCost]:
    """Rows of finished runs below a folder, and rows that were added there. None if there is no such folder."""
    from specdecode.speculation.step_cost import published

    added = runs / ADDED
    found = [*(_of_file(added) if added.exists() else ()), *_of_runs(runs)]
    return [row for row in found if row not in published()]


def _of_runs(runs: Path) -> list[StepCost]:
    from specdecode.analysis.advice.learned import impossible, rows_of
    from specdecode.cli.report_sources import find_all

    found: list[StepCost] = []
    for row in (row for run in find_all(runs) for row in rows_of(run)):
        if problems := [*impossible(row)]:
            complain(f"left out the step with {row.draft}, k={row.k}, of {row.source}: {'; '.join(problems)}")
        else:
            found.append(row)
    return found


def _of_file(file: Path) -> list[StepCost]:
    import yaml
    from pydantic import TypeAdapter, ValidationError

    from specdecode.analysis.advice.learned import impossible
    from specdecode.speculation.step_cost import StepCost
    from specdecode.untrusted import Unreadable, read_text

    try:
        rows = TypeAdapter(list[StepCost]).validate_python(yaml.safe_load(read_text(file)) or [])
    except Unreadable as error:
        raise stop_with(f"{file}: {error}") from None
    except yaml.YAMLError:
        raise stop_with(f"{file} is no YAML") from None
    except ValidationError as error:
        told = [placed(one) for one in error.errors()]
    else:
        told = [f"{number}: {problem}" for number, row in enumerate(rows) for problem in impossible(row)]
    if told:
        raise stop_with("\n".join([f"{file}: no rows of evidence:", *told]))
    return rows


def _yaml(rows: list[StepCost]) -> str:
    import yaml

    return yaml.safe_dump([row.model_dump(mode="json", exclude_defaults=True) for row in rows], sort_keys=False)


COMMANDS = (list_rows, add, export)
