"""Texts of `specdecode forecast`."""

from collections.abc import Sequence
from pathlib import Path

from specdecode.analysis.advice.payoff import HEAD, Expected, Payoff, PayoffAt, heads, payoff, payoff_line, percent
from specdecode.analysis.report.forecasts import forecast_table
from specdecode.cli.evidence import own_rows
from specdecode.cli.output import text_table
from specdecode.escape import line
from specdecode.experiment import Experiment
from specdecode.experiment.told import Forecasted
from specdecode.forecast.result import AtK, Forecast

SHOWN = 6
"""Arms of a table beside the experiment's own, the best on all prompts first."""
STRANGE = " *"
"""Marks an arm that the experiment does not have."""


def forecast_text(found: Forecast) -> str:
    """A table for each draft, and what its figures mean."""
    parts = []
    for draft in found.drafts:
        if not draft.categories:
            parts.append(f"{line(draft.draft)}: no answer of two tokens or more\n")
            continue
        head = ("prompts", "n", *(f"k={at.k}" for at in draft.categories[0].at))
        rows = [(line(own.category), str(own.prompts), *map(_cell, own.at)) for own in draft.categories]
        kind = "" if draft.kind == "model" else " (no model)"
        parts.append(f"{line(draft.draft)}{kind}\n{text_table([head, *rows], left=1)}")
    parts.append(
        "Tokens per step (95% interval over prompts). Speculation pays where a step with k drafts takes less than so\n"
        "many plain steps. What a step takes on the engine is not in this forecast: a run measures it.\n"
    )
    return "\n".join(parts)


def _cell(at: AtK) -> str:
    spread = "" if at.low is None or at.high is None else f" ({at.low:.2f}-{at.high:.2f})"
    return f"{at.tokens_per_step:.2f}{spread}"


def told_text(told: Sequence[Forecasted]) -> str:
    """The table of a run's forecast."""
    table = forecast_table(told)
    return text_table([table.headers, *([line(text) for text in row] for row in table.texts)], left=2)


def payoff_text(found: Payoff) -> str:
    """What to expect of an experiment: a table for each type of prompts, and what follows."""
    order = sorted(found.whole.at, key=lambda one: -one.speedup.value)
    shown = [one for place, one in enumerate(order) if one.variant or place < SHOWN]
    arms = [(one.draft, one.k) for one in shown]
    head = ("arm", "tokens per step", "decoding", "faster", "$ per million tokens")
    parts = []
    for own in found.on:
        rows = [_row(one) for arm in arms for one in own.at if (one.draft, one.k) == arm]
        kind = "forecast" if own.forecast else "guessed"
        parts.append(f"{line(own.prompts)} ({kind})\n{text_table([head, *rows], left=1)}")
    if not all(one.variant for one in shown):
        parts.append("* no arm of the experiment\n")
    if found.worth_a_compile:
        parts.append(f"Worth a compile: {', '.join(map(line, found.worth_a_compile))}.\n")
    else:
        parts.append("Worth a compile: no arm; none is expected to decode faster on all prompts.\n")
    parts += [f"Found elsewhere: {line(said)}.\n" for said in found.found_elsewhere]
    parts.append("Not known before a run:\n" + "".join(f"- {line(text)}\n" for text in found.unknown))
    return "\n".join(parts)


def _row(one: PayoffAt) -> tuple[str, ...]:
    dollars = one.dollars_per_million
    return (
        line(one.variant or f"{one.draft} k={one.k}{STRANGE}"),
        _range(one.tokens_per_step),
        f"{_range(one.speedup)}x",
        percent(one.chance),
        f"{dollars[0]:.2f} to {dollars[1]:.2f}" if dollars else "-",
    )


def _range(one: Expected) -> str:
    return f"{one.value:.2f} ({one.low:.2f}-{one.high:.2f})"


def expected_lines(experiment: Experiment, runs: Path) -> list[str]:
    """What a plan says first: what to expect, by a forecast or the user's `runs`. Empty if no arm speculates."""
    try:
        found = payoff(experiment, own_rows(runs))
    except ValueError:
        return []
    if found.whole.forecast:
        return [f"forecast  {payoff_line(found)}"]
    more = f"`specdecode forecast {experiment.name}` with answers of the target tells more, for nothing"
    more = HEAD if {one.draft for one in found.whole.at} <= {*heads(experiment)} else more
    return [f"guessed   {payoff_line(found)}", f"          {more}"]
