"""What the report commands print."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from specdecode.analysis.advice.learned import taught_nothing
from specdecode.analysis.advice.sweep import k_by_load, variant_of
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import NONE, compact, digits, dollars, times
from specdecode.analysis.results.pairs import Estimate
from specdecode.analysis.several_runs.difference import (
    Carried,
    CaseChange,
    Joint,
    OverRuns,
    Repeated,
    RunDifference,
    TrendPoint,
)
from specdecode.analysis.texts.decide import decided
from specdecode.cli.output import text_table
from specdecode.escape import line
from specdecode.experiment import Experiment
from specdecode.experiment.workload import Level
from specdecode.speculation.advisor import LoadsAdvice
from specdecode.speculation.belief import Candidate
from specdecode.speculation.guess import found_elsewhere
from specdecode.speculation.step_cost import arms, published

if TYPE_CHECKING:
    from specdecode.cli.runs_deployment import Execution

SHOWN = 8
"""Most candidates of an advice that the terminal lists."""


def difference_text(found: RunDifference | Repeated) -> str:
    """A table of the figures over runs, or of the changes and of what else differs."""
    if isinstance(found, Repeated):
        over = [("arm/prompts", f"over {len(found.runs)} runs (95% CI)", "verdicts of the runs")]
        over += [(line(name), compact(item.speedup), _verdicts(item)) for name, item in found.cases.items()]
        table = text_table(over) if found.cases else "No arm and case is in all of the runs.\n"
        return "\n".join([table, *_carried(found.carried)])
    before, after = (ids[0] if len(ids) == 1 else f"{len(ids)} runs" for ids in (found.before, found.after))
    rows = [("arm", "prompts", before, after, "change (95% CI)", "")]
    rows += [
        (
            line(item.variant),
            line(item.case),
            f"{compact(item.before.speedup)} {_verdicts(item.before)}",
            f"{compact(item.after.speedup)} {_verdicts(item.after)}",
            compact(item.change),
            _change(found, item),
        )
        for item in found.cases
    ]
    parts = [text_table(rows)] if found.cases else ["No arm and case is in both.\n"]
    if found.incomparable:
        listed = "".join(f"  {line(item)}\n" for item in found.incomparable)
        parts.append(f"These speed-ups measure different things and are not compared:\n{listed}")
    elif min(len(found.before), len(found.after)) < 2:
        parts.append(
            "One run a side cannot tell a change from what varies between runs: repeat both, and give all runs to "
            "`specdecode compare`.\n"
        )
    if found.other_objective:
        listed = "".join(f"  {line(item)}\n" for item in found.other_objective)
        parts.append(f"These largest loads have different objectives and are not compared:\n{listed}")
    parts += _carried(found.carried)
    parts += [f"only in {before}: {', '.join(map(line, found.only_before))}\n"] if found.only_before else []
    parts += [f"only in {after}: {', '.join(map(line, found.only_after))}\n"] if found.only_after else []
    if found.settings:
        parts.append("What differs:\n" + "".join(f"  {line(item)}\n" for item in found.settings))
    return "\n".join(parts)


def joint_text(found: Joint) -> str:
    """A row for each arm, the fastest first, and what a reader must know of arms on different nodes."""
    rows = [("arm", "speed-up (95% CI)", "verdict", "against", "tokens/s of that", "$ per 1M tokens", "run")]
    rows += [
        (
            line(arm.variant),
            compact(arm.speedup) if arm.speedup else NONE,
            arm.verdict.value if arm.verdict else NONE,
            line(arm.baseline),
            digits(arm.baseline_speed) if arm.baseline_speed else NONE,
            f"{dollars(arm.cost)}, not {dollars(arm.baseline_cost)}" if arm.cost and arm.baseline_cost else NONE,
            line(arm.run_id),
        )
        for arm in found.arms
    ]
    at = f"At the first load, {found.first_of}; the others are in each run's own report.\n" if found.first_of else ""
    missing = f"Not measured: {', '.join(map(line, found.not_measured))}.\n" if found.not_measured else ""
    return (
        f"{text_table(rows)}\n{at}{missing}Arms of different runs were measured on different nodes, each beside the "
        "baseline of its own run. Nodes of one kind may differ, and the largest of many speed-ups is partly chance: to "
        "choose between arms of different runs, measure the best of them once more in one run.\n"
    )


def _carried(found: Sequence[Carried]) -> list[str]:
    """Largest load at the objective of each arm, run by run."""
    lines = [
        f"  {line(each.variant)}: {_loads(each.before)}{' -> ' + _loads(each.after) if each.after else ''}\n"
        for each in found
    ]
    return [f"Largest load that keeps the objective, run by run:\n{''.join(lines)}"] if lines else []


def _loads(found: Sequence[Level | None]) -> str:
    return "; ".join(str(level or "none") for level in found)


def _verdicts(item: OverRuns) -> str:
    return ", ".join(dict.fromkeys(verdict.value for verdict in item.verdicts))


def _change(found: RunDifference, item: CaseChange) -> str:
    if found.incomparable:
        return "not comparable"
    if not item.shown:
        return "cannot tell"
    return "better" if item.change.ratio > 1 else "worse"


def list_of_runs(
    points: Sequence[TrendPoint], executions: Sequence[Execution], *, all_of_them: bool
) -> list[dict[str, Any]]:
    """Runs by their start, with state and answer (None: not known). Without `all_of_them` only those with a report."""
    states = {
        each.run_id: {
            "status": each.status,
            "started_at": datetime.fromisoformat(each.started).astimezone(UTC).isoformat(),
        }
        for each in executions
    }
    reports = {point.run_id: point.model_dump(mode="json") for point in points}
    unknown = {"status": None, **dict.fromkeys(TrendPoint.model_fields)}
    wanted = {**states, **reports} if all_of_them else reports
    found = [{**unknown, "run_id": name, **states.get(name, {}), **reports.get(name, {})} for name in wanted]
    return sorted(found, key=lambda row: datetime.fromisoformat(row["started_at"]))


def runs_text(runs: Sequence[dict[str, Any]]) -> str:
    """A line for each run, then the figures over the newest that has any and all earlier runs of the same question."""
    if not runs:
        return "no run yet: start one with `specdecode run`\n"
    rows = [("started", "run", "state", "failed", "answer")]
    for each in runs:
        started = datetime.fromisoformat(each["started_at"])
        told = (each[name] for name in ("run_id", "status", "failed", "answer"))
        run, state, failed, answer = (NONE if known is None else line(str(known)) for known in told)
        rows.append((f"{started:%Y-%m-%d %H:%M}", run, state, failed, answer))
    last = next((each for each in reversed(runs) if each["over_runs"]), None)
    if last is None:
        return text_table(rows)
    over = [("arm/prompts", "runs", f"over runs like {line(last['run_id'])} (95% CI)")]
    estimates = {name: Estimate.model_validate(found) for name, found in last["over_runs"].items()}
    over += [(line(name), str(found.n), compact(found)) for name, found in estimates.items()]
    return f"{text_table(rows)}\n{text_table(over)}"


def advice_document(
    found: LoadsAdvice, experiment: Experiment, runs: Sequence[Comparison] = (), *, group: str = "all"
) -> dict[str, Any]:
    """The advice as plain data, with the experiment's own names of the arms, and what the runs decided."""
    advice = found.together
    decisions = [(run.run_id, decided(run)) for run in runs]
    return {
        "decided": [
            {"run_id": run, "action": own.action.value, "variant": own.variant, "why": own.why}
            for run, own in decisions
        ],
        "taught_nothing": [
            {"run_id": run.run_id, "variant": variant, "why": why}
            for run in runs
            for variant, why in taught_nothing(run, group)
        ],
        "reason": advice.reason,
        "compile_next": _candidate(advice.compile_next, experiment),
        "best": _candidate(advice.best, experiment),
        "best_speedup": advice.best_speedup,
        "remaining_gain": advice.remaining_gain,
        "measure_again": [_candidate(candidate, experiment) for candidate in advice.measure_again],
        "candidates": [
            {
                **(_candidate(belief.candidate, experiment) or {}),
                "expected": belief.speedup,
                "low": belief.low,
                "high": belief.high,
                "expected_improvement": belief.improvement,
            }
            for belief in advice.beliefs
        ],
        "k_by_load": k_by_load(found),
        "by_load": [
            {
                "load": level.name,
                "at": str(level),
                "best": _candidate(own.best, experiment),
                "best_speedup": own.best_speedup,
                "compile_next": _candidate(own.compile_next, experiment),
                "reason": own.reason,
            }
            for level, own in found.levels
        ],
        "found_elsewhere": [
            {"says": says, "source": source} for says, source in found_elsewhere(arms(experiment), published())
        ],
    }


def advice_text(document: dict[str, Any]) -> str:
    """The reason, what is best so far, and the candidates in order."""
    parts = [document["reason"] + "\n"]
    for run in document["decided"]:
        parts.append(
            f"{line(run['run_id'])} decided of {run['variant'] or 'no arm'}, by whole requests: {run['action']}"
            f"{'; ' if run['why'] else ''}{line(run['why'])}.\n"
        )
    parts += [
        f"{line(one['run_id'])}: {line(one['variant'])} teaches nothing of other arms: {line(one['why'])}.\n"
        for one in document["taught_nothing"]
    ]
    parts += [f"Found elsewhere: {one['says']} ({one['source']}).\n" for one in document["found_elsewhere"]]
    if document["by_load"]:
        parts += [document["k_by_load"] + "\n", _by_load(document["by_load"])]
    elif document["best"]:
        parts.append(f"Best so far: {_arm(document['best'])}, {times(document['best_speedup'])} in decoding.\n")
    if document["measure_again"]:
        listed = ", ".join(_arm(item) for item in document["measure_again"])
        parts.append(f"Too close to call, worth measuring again (no compile needed): {listed}.\n")
    if document["candidates"]:
        rows = [("arm", "expected", "range (95%, one-sided)", "expected improvement")]
        rows += [
            (
                _arm(item),
                times(item["expected"]),
                f"{times(item['low'])} to {times(item['high'])}",
                f"{item['expected_improvement']:.1%}",
            )
            for item in document["candidates"][:SHOWN]
        ]
        parts.append(text_table(rows))
    return "\n".join(parts)


def _by_load(loads: Sequence[dict[str, Any]]) -> str:
    rows = [("load", "best measured", "decoding", "worth most there")]
    rows += [
        (
            item["at"],
            _arm(item["best"]) if item["best"] else "no speculation",
            times(item["best_speedup"]),
            f"compile {_arm(item['compile_next'])}" if item["compile_next"] else "no compile",
        )
        for item in loads
    ]
    return text_table(rows)


def _candidate(candidate: Candidate | None, experiment: Experiment) -> dict[str, Any] | None:
    if candidate is None:
        return None
    variant = variant_of(experiment, candidate)
    return {"draft": candidate.draft, "k": candidate.k, "variant": variant.name if variant else None}


def _arm(item: dict[str, Any]) -> str:
    return item["variant"] or f"{item['draft']} k={item['k']}"
