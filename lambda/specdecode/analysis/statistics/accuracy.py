"""Whether an arm answers worse than its baseline: differences of lm-eval scores with their intervals."""

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Any, TypeGuard

from pydantic import BaseModel, Field, ValidationError

from specdecode.analysis.results.comparison import AccuracyChange
from specdecode.analysis.results.pairs import Pair
from specdecode.analysis.results.run_context import Accuracy
from specdecode.escape import clip
from specdecode.measures.student import CONFIDENCE
from specdecode.untrusted import Unreadable, in_words, parse_json

LONGEST = 200
"""Characters of a task's or metric's name."""
MOST_SCORES = 1000


class _Samples(BaseModel):
    effective: int | None = Field(default=None, ge=0, le=10**9)


class _Results(BaseModel):
    """The fields of lm-eval's file that are used."""

    results: dict[str, dict[str, Any]] = Field(default_factory=dict)
    samples: dict[str, _Samples] = Field(default_factory=dict, alias="n-samples")
    higher_is_better: dict[str, dict[str, bool | None]] = Field(default_factory=dict)


def accuracy_changes(scores: Sequence[Accuracy], pairs: Sequence[Pair]) -> Iterator[AccuracyChange]:
    """Score of the arm minus its baseline's, for every task and metric that both have. The two answer the same
    questions but are treated as independent, so the interval is too wide rather than too narrow. All intervals of a
    pair hold together with 95% (Bonferroni), since one score that is worse keeps an arm back. They are normal, since
    lm-eval's standard errors are of large-sample proportions.
    """
    known = {(item.variant, item.task, item.metric): item for item in scores}
    for pair in pairs:
        own = [(item, known.get((pair.baseline, item.task, item.metric))) for item in scores]
        both = [(item, before) for item, before in own if item.variant == pair.variant and before]
        judged = sum(None not in (item.stderr, before.stderr) for item, before in both)
        for item, before in both:
            change, reach = item.value - before.value, None
            if before.stderr is not None and item.stderr is not None:
                quantile = NormalDist().inv_cdf(1.0 - (1.0 - CONFIDENCE) / 2.0 / judged)
                reach = quantile * math.hypot(before.stderr, item.stderr)
            yield AccuracyChange(
                variant=pair.variant,
                baseline=pair.baseline,
                task=item.task,
                metric=item.metric,
                before=before.value,
                after=item.value,
                change=change,
                low=change - reach if reach is not None else None,
                high=change + reach if reach is not None else None,
                shown=reach is not None and abs(change) > reach,
                higher_is_better=item.higher_is_better,
            )


class NoScores(ValueError):
    """A document is no result of lm-eval; the message says why."""


def lm_eval_scores(variant: str, data: bytes) -> list[Accuracy]:
    """The scores in one lm-eval result file (`results*.json`). It writes a metric as `name,filter` and its standard
    error as `name_stderr,filter` (or `N/A`). Raises NoScores.
    """
    try:
        document = _Results.model_validate(parse_json(data))
    except Unreadable as error:
        raise NoScores(str(error)) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise NoScores(f"{'.'.join(map(str, first['loc'])) or 'document'}: {in_words(first)}") from None
    found: list[Accuracy] = []
    for task, values in document.results.items():
        for key, value in values.items():
            name, comma, kind = key.partition(",")
            if not comma or name.endswith("_stderr") or isinstance(value, str | list | dict):
                continue
            if not _is_score(value):
                raise NoScores(f"{clip(task, LONGEST)}: {clip(key, LONGEST)} is no score")
            deviation = values.get(f"{name}_stderr,{kind}")
            found.append(
                Accuracy(
                    variant=variant,
                    task=clip(task, LONGEST),
                    metric=clip(f"{name} ({kind})" if kind != "none" else name, LONGEST),
                    value=value,
                    stderr=deviation if _is_score(deviation) else None,
                    samples=document.samples.get(task, _Samples()).effective,
                    higher_is_better=document.higher_is_better.get(task, {}).get(name) is not False,
                )
            )
            if len(found) > MOST_SCORES:
                raise NoScores(f"more than {MOST_SCORES} scores")
    return found


def _is_score(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12
