"""What is wrong with an experiment: every problem, in one exception."""

from __future__ import annotations

from collections.abc import Iterable

from specdecode.experiment.model import Frozen


class Problem(Frozen):
    """One thing that cannot work, and what to do about it."""

    field: str
    """Path in the document, as `--set` takes it: `variants.sd.speculation.method`."""
    rule: str
    """Identifier of the rule: `schema` for the document's shape, else one of `specdecode.experiment.rules`."""
    message: str
    fix: str
    source: str = ""
    """What the rule rests on: a release note, a manual, a measured fact."""

    def __str__(self) -> str:
        source = f" [{self.source}]" if self.source else ""
        return f"{self.field or '(document)'}: {self.message} ({self.rule}){source}\n    fix: {self.fix}"


class ExperimentError(ValueError):
    """An experiment was refused; `problems` holds every reason."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{count} in the experiment:", *(f"  {p}" for p in self.problems)]))
