"""`specdecode gate`: limits that make a CI pipeline fail."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdecode.cli.options import WHERE, AsJson, Where
from specdecode.cli.options import runs as completed_runs
from specdecode.cli.output import EXIT_FAILED, EXIT_IMPOSSIBLE, EXIT_UNDECIDED, answer, stop_with
from specdecode.untrusted import quoted

if TYPE_CHECKING:
    from specdecode.analysis.several_runs.gate import Gate
    from specdecode.analysis.several_runs.gate_questions import Thresholds

BETWEEN = re.compile(r"(?<=[^./,])\.\.")
"""The dots of BEFORE..AFTER. The dots of a path like ../results come after a slash, a comma or nothing."""
MOST_SHARE = 0.99
RECORDS = {".json", ".jsonl", ".yaml"}
"""Endings of the files of a run's folder that reports are made from."""


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """The limits, and what is held to them."""

    min_speedup: Annotated[
        float | None, typer.Option(min=0.01, max=1000, help="Smallest speed-up of every arm over its baseline: 1.2.")
    ] = None
    max_regression: Annotated[
        str | None, typer.Option(metavar="PERCENT", help="Most that an arm's throughput may fall from BEFORE to AFTER.")
    ] = None
    arm: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Hold only this arm to the limits. Repeatable.")
    ] = None
    load: Annotated[
        list[float] | None, typer.Option(metavar="N", min=0, help="Hold only this load to the limits. Repeatable.")
    ] = None
    each_case: Annotated[bool, typer.Option("--each-case", help="Hold every case to the limits by itself, too.")] = (
        False
    )
    between_runs: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            help="Assumed variation between runs: 0.5%, or 5% where each run had a node of its own. Repeats "
            "replace it by what they show.",
        ),
    ] = None

    def thresholds(self) -> Thresholds:
        """The limits as the gate takes them. Raises Unfit for a text that is no percentage."""
        from specdecode.analysis.several_runs.gate_questions import Thresholds

        return Thresholds(
            min_speedup=self.min_speedup,
            max_regression=None if self.max_regression is None else _share("--max-regression", self.max_regression),
            arms=tuple(self.arm or ()),
            loads=tuple(self.load or ()),
            each_case=self.each_case,
            between_runs=None if self.between_runs is None else _share("--between-runs", self.between_runs),
        )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The files that the answer is written to."""

    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit's XML to this file.")] = None
    summary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add a summary in Markdown to this file ($GITHUB_STEP_SUMMARY).")
    ] = None

    def check(self, runs: Iterable[str]) -> None:
        """End the command if one cannot be written, or is a file of a run."""
        from specdecode.cli.written_files import unwritable

        given, files = [*map(Path, runs)], {"--junit": self.junit, "--summary": self.summary}
        there = [file for file in files.values() if file and file.suffix in RECORDS and file.exists()]
        within = [file for file in there if {run.resolve() for run in given} & {*file.resolve().parents}]
        if wrong := unwritable(files, inputs=[*given, *within]):
            raise stop_with("\n".join(wrong))

    def write(self, judged: Gate) -> None:
        """Write them. Raises OSError, with the file's name."""
        from specdecode.analysis.report.gate import gate_junit, gate_markdown
        from specdecode.cli.written_files import naming

        if self.junit is not None:
            with naming(self.junit):
                self.junit.write_text(gate_junit(judged), encoding="utf-8")
        if self.summary is not None:
            with naming(self.summary), self.summary.open("a", encoding="utf-8") as file:
                file.write(gate_markdown(judged))


def gate(
    runs: Annotated[
        str,
        typer.Argument(
            metavar="RUN|BEFORE..AFTER",
            help="Run ids, folders or report.json files; repeats with commas: A1,A2..B1,B2.",
            autocompletion=completed_runs,
        ),
    ],
    asked: LimitOptions,
    written: OutputOptions,
    where: Where = WHERE,
    as_json: AsJson = False,
) -> None:
    """Check runs against limits, for CI: a smallest speed-up, a largest regression.

    A speed-up compares an arm with its baseline in the same run. A regression compares each arm's own throughput, AFTER
    with BEFORE. In a run of several loads each load is checked, and the worst decides.

        specdecode gate results/nightly --min-speedup 1.2
        specdecode gate results/main..results/change --max-regression 3% --junit gate.xml

    Exit codes: 0 every limit is kept, 1 one is broken, 2 bad input or runs that cannot be compared, 3 AWS cannot be
    reached, 4 cannot tell: the limit lies within an interval, or a figure is missing, 5 a figure is impossible.
    """
    from specdecode.analysis.report.gate import gate_text
    from specdecode.analysis.several_runs.gate import GateOutcome
    from specdecode.analysis.several_runs.gate import gate as judge
    from specdecode.cli.report_sources import find_each

    before, after = _sides(runs)
    limits = asked.thresholds()
    written.check([*before, *after])
    found = find_each([*before, *after], deployment=where.deployment())
    judged = judge(found[len(before) :], limits, against=found[: len(before)])
    document = {"outcome": judged.outcome.value, **judged.model_dump(mode="json")}
    written.write(judged)  # before the answer: what cannot be written is the answer
    answer(as_json, document, lambda: gate_text(judged))
    ends = {
        GateOutcome.FAILED: EXIT_FAILED,
        GateOutcome.CANNOT_TELL: EXIT_UNDECIDED,
        GateOutcome.IMPOSSIBLE: EXIT_IMPOSSIBLE,
    }
    raise typer.Exit(ends.get(judged.outcome, 0))


def _sides(runs: str) -> tuple[list[str], list[str]]:
    """The runs before, if there is such a side, and after. Ends the command if a side is empty."""
    dots = BETWEEN.search(runs)
    before, after = (runs[: dots.start()], runs[dots.end() :]) if dots else ("", runs)
    sides = [part.strip() for part in before.split(",")] if dots else [], [part.strip() for part in after.split(",")]
    if not all(part for side in sides for part in side):
        raise stop_with(f"{runs}: write RUN, BEFORE..AFTER, or repeated runs with commas: A1,A2..B1,B2")
    return sides


def _share(option: str, text: str) -> float:
    """A percentage as a share. Raises Unfit, also for a number without its %, which could be meant as a share."""
    from specdecode.analysis.several_runs.gate import Unfit

    number, sign, rest = text.strip().partition("%")
    try:
        share = float(number) / 100.0
    except ValueError:
        share = -1.0
    if rest or not (sign or share == 0.0) or not 0.0 <= share <= MOST_SHARE:
        raise Unfit(f"{option} {quoted(text)}: write a percentage from 0% to {MOST_SHARE:.0%}, for example 3%")
    return share
