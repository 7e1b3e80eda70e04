"""What a run decides, as data: what is known of each arm, how sure, and what to do. Everything that speaks reads it
(ADR 200); `specdecode.analysis.texts.decide` makes it.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from specdecode.analysis.results.pairs import Estimate, GroupName, Verdict
from specdecode.experiment.base import Frozen


class Action(StrEnum):
    """What to do."""

    USE = "use"
    KEEP = "do not use"
    MEASURE = "measure more"
    DISTRUST = "do not trust"


class ArmFinding(Frozen):
    """What is known of one arm on a kind of prompts at one load."""

    variant: str
    baseline: str
    group: GroupName
    load: str
    """Name of the level."""
    action: Action
    verdict: Verdict
    speedup: Estimate | None
    """Over the kind's prompt types together, each of the same weight. None if there is no figure to trust."""
    types: int
    """Prompt types of the kind that were measured."""
    pays_on: tuple[str, ...] = ()
    unknown_on: tuple[str, ...] = ()
    """Prompt types on which it pays, and those that the run cannot tell about. At loads after the first: empty."""
    why: str = ""
    """Why it is no surer. Empty if it is sure."""


class Decision(Frozen):
    """What to do after this run, at its first load."""

    action: Action
    variant: str | None
    """The arm that it is about, and the arm that it was compared with. None if nothing was compared."""
    baseline: str | None
    serve: str | None
    """The arm to serve: to use, or to keep. None if the run does not tell, or is not to be trusted."""
    why: str
    findings: tuple[ArmFinding, ...] = ()
    """Of each compared arm and kind of prompts, `all` among them; at loads after the first of `all` alone."""
    distrusted: dict[str, str] = Field(default_factory=dict)
    """Arm -> why none of its figures is to be trusted."""

    def finding(self, variant: str, group: str = "all") -> ArmFinding | None:
        """What is known of an arm at the first load."""
        return next((each for each in self.findings if (each.variant, each.group) == (variant, group)), None)
