"""Which sections a page has: the table of contents and the page are made from this one list."""

from __future__ import annotations

from typing import NamedTuple

from specdecode.analysis.report.view import ReportView


class Entry(NamedTuple):
    """A section: its template, the id of its heading, and what it is called."""

    template: str
    id: str
    title: str


def contents(view: ReportView) -> list[Entry]:
    """The sections after the first screen."""
    comparison = view.comparison
    found = [
        (bool(view.curves), Entry("curve", "curve-1", "Over the load")),
        (bool(view.work), Entry("work", "work-1", "By kind of work")),
        (bool(view.pairs), Entry("verdicts", "verdict-1", "Prompt type by prompt type")),
        (view.is_sweep, Entry("matrix", "matrix-h", "All arms")),
        (len(view.grid.ks) > 1, Entry("sweep", "sweep-h", "Draft and k")),
        (bool(comparison.chains), Entry("chains", "chain-1", "What each change is worth")),
        (bool(comparison.theory), Entry("theory", "theory-h", "How many speculative tokens")),
        (bool(view.pairs), Entry("metrics", "metrics-h", "Every metric")),
        (bool(view.turns), Entry("turns", "turns-h", "Turn by turn")),
        (view.drawn.any_samples, Entry("distributions", "dist-h", "Distributions")),
        (bool(comparison.timeline), Entry("timeline", "time-h", "The run as it went")),
        (comparison.cost is not None or view.has_costs, Entry("cost", "cost-h", "Cost")),
        (view.winner is not None, Entry("serve", "serve-h", "Serve it again")),
        (bool(view.pairs or comparison.context.accuracy), Entry("equality", "equal-h", "Same text?")),
        (
            bool(comparison.parts or comparison.drift or comparison.context.device_groups),
            Entry("conditions", "drift-h", "Steady ground?"),
        ),
        (True, Entry("configuration", "config-h", "What was run")),
    ]
    return [entry for there, entry in found if there]
