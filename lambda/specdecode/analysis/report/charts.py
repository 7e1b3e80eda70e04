"""The data behind the charts, as small as they need it."""

from __future__ import annotations

from typing import Any

from specdecode.analysis.report.view import ReportView
from specdecode.analysis.result import ArmCase, Comparison, Theory
from specdecode.escape import line


def chart_data(comparison: Comparison) -> dict[str, Any]:
    """Distributions, steps and per-position acceptance per case of the arms shown in full; the model per draft."""
    view = ReportView(comparison)
    shown: list[str] = []
    for pair in view.pairs:
        shown += [name for name in (pair.baseline, pair.variant) if name not in shown]
    return {
        "arms": [{"name": name, "label": line(view.label(name)), "base": name == shown[0]} for name in shown],
        "cases": [
            {
                "case": case.name,
                "label": line(case.name),
                "arms": [_arm(arm) for name in shown if (arm := comparison.arm(name, case.name))],
            }
            for case in comparison.experiment.workload.cases
        ],
        "theory": [_theory(theory) for theory in comparison.theory],
    }


def _arm(arm: ArmCase) -> dict[str, Any]:
    return {
        "name": arm.variant,
        "tpot": [round(value, 6) for value in arm.samples.get("time_per_output_token", ())],
        "e2e": [round(value, 5) for value in arm.samples.get("end_to_end_latency", ())],
        "steps": [[item.tokens, round(item.share, 5)] for item in arm.steps],
        "positions": [round(rate, 4) for rate in arm.accepted_per_position],
    }


def _theory(theory: Theory) -> dict[str, Any]:
    return {
        "draft": line(theory.draft),
        "group": theory.group,
        "points": [[p.k, round(p.speedup, 4), round(p.low, 4), round(p.high, 4)] for p in theory.points],
        "measured": [[m.k, round(m.speedup, 4), m.low, m.high, line(m.variant)] for m in theory.measured],
    }
