"""The forecast: tokens per step of every draft, for every k and type of prompt. No text is in it."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from specdecode.experiment.base import Frozen
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.told import Forecasted
from specdecode.measures.student import NOMINAL, t_quantile
from specdecode.speculation.acceptance import Steps, together

Kind = Literal["model", "n-gram", "suffix"]
SMALLEST_SAMPLE = 3
"""Fewer prompts give no interval."""
UNKNOWN_ERROR = 0.1
"""Relative standard error where there is no interval."""


class AtK(Frozen):
    """One draft with one k on one type of prompts."""

    k: int
    verified: int
    """Drafts of a step that the target verifies: k, or k - 1 (`MostTokens`)."""
    steps: int
    tokens_per_step: float
    """Tokens of all answers over their steps, without the prompt's own: a step without speculation gives 1. Also the
    most that a step may cost, in steps without speculation, so that speculation pays.
    """
    low: float | None = None
    high: float | None = None
    """95 % interval for further prompts of this type. None with fewer than three prompts."""
    by_position: tuple[float, ...]
    """Share of the steps that accept the draft at position 1, 2, …"""


class OfCategory(Frozen):
    """One draft on one type of prompts."""

    category: str
    prompts: int
    answers: int
    tokens: int
    """Tokens of the answers, without the first of each."""
    at: tuple[AtK, ...]


class OfDraft(Frozen):
    """What one draft would yield."""

    draft: str
    kind: Kind
    """A model that was read, or a lookup in the text, which costs no model."""
    categories: tuple[OfCategory, ...]


class Forecast(Frozen):
    """What speculation would yield on these answers."""

    schema_version: Literal[1] = 1
    most_tokens_per_step: MostTokens
    """Of the engine that it is meant for."""
    drafts: tuple[OfDraft, ...]
    notes: tuple[str, ...] = ()
    """What was not read and why, and what else makes a figure less sure."""


class Read(NamedTuple):
    """One answer, as one draft read it."""

    category: str
    asks: str
    tokens: int
    """Without the first."""
    steps: Callable[[int], Steps]
    """By the number of verified drafts."""


def of_draft(draft: str, kind: Kind, answers: Sequence[Read], *, ks: Sequence[int], most: MostTokens) -> OfDraft:
    """The forecast of one draft. `answers` of fewer than two tokens have no step, and do not count."""
    by_category: dict[str, list[Read]] = defaultdict(list)
    for answer in answers:
        if answer.tokens:
            by_category[answer.category].append(answer)
    return OfDraft(
        draft=draft,
        kind=kind,
        categories=tuple(
            OfCategory(
                category=category,
                prompts=len({answer.asks for answer in own}),
                answers=len(own),
                tokens=sum(answer.tokens for answer in own),
                at=tuple(_at(own, k, most.verified(k)) for k in ks),
            )
            for category, own in by_category.items()
        ),
    )


def forecasted(draft: OfDraft, name: str) -> list[Forecasted]:
    """The forecast of one draft as a part of an experiment, which calls the draft `name`."""
    return [
        Forecasted(
            draft=name,
            case=own.category,
            prompts=own.prompts,
            at=tuple((at.k, round(at.tokens_per_step, 4), round(_error(at, own.prompts), 4)) for at in own.at),
        )
        for own in draft.categories
    ]


def _error(at: AtK, prompts: int) -> float:
    """Relative standard error of the tokens per step. Of one or two prompts it is not known."""
    if at.low is None or at.high is None:
        return UNKNOWN_ERROR
    return min(1.0, math.log(at.high / at.low) / 2.0 / t_quantile(0.5 + NOMINAL / 2.0, prompts - 1))


def _at(answers: Sequence[Read], k: int, verified: int) -> AtK:
    of_prompt: dict[str, list[Steps]] = defaultdict(list)
    for answer in answers:
        of_prompt[answer.asks].append(answer.steps(verified))
    prompts = {asks: together(parts) for asks, parts in of_prompt.items()}
    every = together(list(prompts.values()))
    low, high = _interval(prompts, every)
    return AtK(
        k=k,
        verified=verified,
        steps=every.steps,
        tokens_per_step=every.tokens / every.steps,
        low=low,
        high=high,
        by_position=every.by_position,
    )


def _interval(prompts: Mapping[str, Steps], every: Steps) -> tuple[float | None, float | None]:
    """Interval of tokens over steps, prompts being drawn: the ratio estimator's variance on the log scale (Cochran
    1977, "Sampling Techniques", section 6.3), with Student's t.
    """
    n = len(prompts)
    if n < SMALLEST_SAMPLE:
        return None, None
    ratio, steps = every.tokens / every.steps, every.steps / n
    rest = math.fsum((part.tokens - ratio * part.steps) ** 2 for part in prompts.values()) / (n - 1)
    error = math.sqrt(rest / n) / (ratio * steps)
    width = math.exp(t_quantile(0.5 + NOMINAL / 2.0, n - 1) * error)
    return max(1.0, ratio / width), min(every.n + 1.0, ratio * width)
