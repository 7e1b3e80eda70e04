"""What a run decides, as data: what is known of each arm, how sure, and what to do. Everything that speaks reads it
(ADR 200); `specdecode.analysis.texts.decide` makes it.
"""

from enum import StrEnum

from pydantic import Field

from specdecode.analysis.results.pairs import Estimate, GroupName, Verdict
from specdecode.experiment.base import Frozen, Many


class Action(StrEnum):
    """What to do."""

    USE = "use"
    KEEP = "do not use"
    MEASURE = "measure more"
    DISTRUST = "do not trust"


class ArmFinding(Frozen):
    """What is known of one arm on a prompt type, or on a kind of them, at one load."""

    variant: str
    baseline: str
    group: GroupName | None
    case: str | None = None
    """A kind of prompts, or one prompt type: one of the two is None."""
    load: str
    """Name of the level."""
    action: Action
    verdict: Verdict
    speedup: Estimate | None
    """Over the kind's prompt types together, each of the same weight. None if there is no figure to trust."""
    why: str = ""
    """Why it is no surer. Empty if it is sure."""


class Decision(Frozen):
    """What to do after this run, at its first load."""

    action: Action
    variant: str | None
    """The arm that it is about, and the arm that it was compared with. None if nothing was compared."""
    baseline: str | None
    setting: str = ""
    """Settings that both are served with, of those in which the run's arms differ: `max_num_seqs=4`. The decision is
    about the setting at which an arm wrote most tokens a second."""
    serve: str | None
    """The arm to serve: to use, or to keep. None if the run does not tell, or is not to be trusted."""
    why: str
    findings: Many[ArmFinding] = ()
    """Of each compared arm on each kind of prompts (`all` among them; at loads after the first `all` alone), then on
    each prompt type."""
    distrusted: dict[str, str] = Field(default_factory=dict)
    """Arm -> why none of its figures is to be trusted. An arm that others are compared with is there for its own
    figures alone."""
    late: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Load -> arms whose load generator fell behind there."""

    def finding(self, variant: str, group: str = "all", load: str = "") -> ArmFinding | None:
        """What is known of an arm on a kind of prompts. `load`: its name; else the first."""
        found = (each for each in self.findings if (each.variant, each.group) == (variant, group))
        return next((each for each in found if load in ("", each.load)), None)

    def cases(self, variant: str, load: str) -> dict[str, ArmFinding]:
        """What is known of an arm at a load, by prompt type."""
        return {each.case: each for each in self.findings if each.case and (each.variant, each.load) == (variant, load)}
