"""The problems of an experiment, all in one exception."""

from collections.abc import Iterable
from typing import Any

from specdecode.escape import clip, line, plain
from specdecode.experiment.base import Frozen
from specdecode.untrusted import WrongInput

MOST_SHOWN = 25
"""Most problems that the message names: it must fit into the cause of a failed execution (32 KiB)."""
_LONGEST = 500


class Problem(Frozen):
    """One problem, and what to do about it."""

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
        where = clip(line(self.field), _LONGEST) or "(document)"
        return f"{where}: {_shown(self.message)} ({self.rule}){source}\n    fix: {_shown(self.fix)}"


def _shown(text: str) -> str:
    """Names of the document stand in it."""
    return clip(plain(text), _LONGEST)


class ExperimentError(WrongInput):
    """An experiment was refused; `problems` holds every reason."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        shown = [f"{count} in the experiment:", *(f"  {p}" for p in self.problems[:MOST_SHOWN])]
        if len(self.problems) > MOST_SHOWN:
            shown.append(f"  and {len(self.problems) - MOST_SHOWN} more")
        super().__init__("\n".join(shown))

    def document(self) -> dict[str, Any]:
        return {"valid": False, "problems": [problem.model_dump(mode="json") for problem in self.problems]}


def refused(field: str, message: str, fix: str, *, rule: str = "document", source: str = "") -> ExperimentError:
    """The error of a single problem."""
    return ExperimentError([Problem(field=field, rule=rule, message=message, fix=fix, source=source)])
