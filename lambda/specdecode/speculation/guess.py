"""Tokens per step before any forecast or run: a wide guess for each group of prompts, or what others found for a pair.

Both are in assets/evidence/acceptance.yaml, with sources. A finding is a speed-up; the card of step costs turns it
into tokens per step. All prompts together are the mean of the groups: on structured ones alone a draft looks too good.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from statistics import fmean, geometric_mean

import yaml
from pydantic import Field

from specdecode.assets import assets_dir
from specdecode.experiment.base import Frozen
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.variants import HEADS
from specdecode.speculation.belief import Candidate
from specdecode.speculation.step_cost import Card, StepArm, StepCost

FOUND = 0.2
"""Standard deviation of the logarithm of tokens per step that follow from somebody else's speed-up."""
AWAY = 0.2
"""The same for each e-fold of k that a head's arm is away from the k that somebody measured."""


class GroupGuess(Frozen):
    """Acceptance on one group of prompts."""

    first: float = Field(gt=0, lt=1)
    """Chance that the first draft of a step is accepted."""
    falls: float = Field(gt=0, le=1)
    """Factor of that chance with each further position."""
    spread: float = Field(gt=0)
    """Standard deviation of the logarithm of tokens per step."""

    def tokens(self, n: int) -> float:
        """Tokens per step with n verified drafts."""
        total = reached = 1.0
        for position in range(n):
            reached *= self.first * self.falls**position
            total += reached
        return total

    def yielding(self, tokens: float, n: int) -> GroupGuess:
        """The group with as many tokens per step with n verified drafts, as far as `falls` allows."""
        low, high = self.model_copy(update={"first": 0.0}), self.model_copy(update={"first": 1.0})
        for _ in range(60):
            middle = self.model_copy(update={"first": (low.first + high.first) / 2.0})
            low, high = (middle, high) if middle.tokens(n) < tokens else (low, middle)
        return low


class Finding(Frozen):
    """What others found for a pair."""

    source: str
    says: str
    target: str
    draft: str
    k: int
    speedup: dict[str, float]
    """Of decoding, by group of prompts."""
    other_drafts: dict[str, float] = Field(default_factory=dict)
    """Share of accepted drafts of others, as a part of this one's."""


class Known(Frozen):
    """All that is guessed or was found elsewhere."""

    groups: dict[str, GroupGuess]
    findings: tuple[Finding, ...]


@cache
def known() -> Known:
    """The guesses and findings that ship."""
    return Known.model_validate(yaml.safe_load((assets_dir() / "evidence" / "acceptance.yaml").read_text()))


def finding(target: str, draft: str) -> Finding | None:
    """What others found for a pair."""
    found = (one for one in known().findings if one.target == target and draft in (one.draft, *one.other_drafts))
    return next(found, None)


def found_elsewhere(arms: Mapping[str, StepArm], rows: Iterable[StepCost]) -> list[tuple[str, str]]:
    """What the guesses for some drafts come from, each with its source: findings for a pair, and measured heads."""
    pairs = [finding(arm.target, draft) for draft, arm in arms.items()]
    found = [(one.says, one.source) for one in known().findings if one in pairs]
    for draft, own in measured_heads(arms, rows).items():
        for row in own:
            said = f"{row.tokens_per_step:.2f} tokens per step of {draft} with k={row.k}, {row.concurrency:g} at a time"
            found.append((said, row.source))
    return found


def measured_heads(arms: Mapping[str, StepArm], rows: Iterable[StepCost]) -> dict[str, list[StepCost]]:
    """For each head the rows that say its tokens per step with its target: no answers tell them."""
    return {
        draft: [
            row
            for row in rows
            if (row.target, row.draft) == (arm.target, draft)
            and row.tokens_per_step
            and row.most_tokens_per_step.verified(row.k)
        ]
        for draft, arm in arms.items()
        if arm.method in HEADS
    }


def guesses(
    candidates: Iterable[Candidate],
    arms: Mapping[str, StepArm],
    *,
    group: str,
    most: MostTokens,
    card: Card,
    rows: Sequence[StepCost] = (),
) -> dict[Candidate, tuple[float, float]]:
    """Tokens per step of every candidate and the standard deviation of their logarithm. `group`: one of
    `known().groups`, or any other name for all of them together. `rows`: evidence, whose tokens per step of a head on
    all prompts shift its guess.
    """
    heads = measured_heads(arms, rows)
    found: dict[Candidate, tuple[float, float]] = {}
    for candidate in candidates:
        own = min(heads.get(candidate.draft, ()), key=lambda row: abs(row.k - candidate.k), default=None)
        parts = [
            _from_row(name, own, candidate, most)
            if own
            else _guess(name, arms.get(candidate.draft), candidate, most, card)
            for name in known().groups
            if group == name or group not in known().groups
        ]
        found[candidate] = (geometric_mean(tokens for tokens, _ in parts), fmean(spread for _, spread in parts))
    return found


def _from_row(name: str, row: StepCost, candidate: Candidate, most: MostTokens) -> tuple[float, float]:
    """The group, moved so that all groups together have the row's tokens per step; surer at the row's k."""
    group, at = known().groups[name], row.most_tokens_per_step.verified(row.k)
    tokens = group.yielding(_moved(group, at, _shift(row)), at).tokens(most.verified(candidate.k))
    return tokens, min(group.spread, math.hypot(FOUND, AWAY * math.log(candidate.k / row.k)))


def _moved(group: GroupGuess, n: int, shift: float) -> float:
    """Tokens per step with `shift` more of the logarithm of accepted over rejected drafts."""
    share = (group.tokens(n) - 1.0) / n
    return 1.0 + n / (1.0 + (1.0 / share - 1.0) * math.exp(-shift))


@cache
def _shift(row: StepCost) -> float:
    """The shift at which the groups' mean is the row's tokens per step."""
    groups, n = known().groups.values(), row.most_tokens_per_step.verified(row.k)
    low, high, wanted = -9.0, 9.0, math.log(row.tokens_per_step or 1.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        mean = fmean(math.log(_moved(group, n, middle)) for group in groups)
        low, high = (middle, high) if mean < wanted else (low, middle)
    return low


def _guess(name: str, arm: StepArm | None, candidate: Candidate, most: MostTokens, card: Card) -> tuple[float, float]:
    group, n = known().groups[name], most.verified(candidate.k)
    one = finding(arm.target, candidate.draft) if arm else None
    if arm is None or one is None or name not in one.speedup:
        return group.tokens(n), group.spread
    at = most.verified(one.k)
    step = 1.0 + math.exp(card.predict([arm._replace(draft=one.draft, k=one.k)])[0][0])
    accepted = min(float(at), max(0.0, one.speedup[name] * step - 1.0)) * one.other_drafts.get(candidate.draft, 1.0)
    return group.yielding(1.0 + accepted, at).tokens(n), FOUND
