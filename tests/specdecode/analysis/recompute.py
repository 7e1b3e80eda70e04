"""Recompute every number of report.json from the raw files beside it, with nothing of `specdecode`.

    python tests/specdecode/analysis/recompute.py RUN_FOLDER

Only the standard library, and other algorithms where there is a choice (Student's t by integrating its density). Prints
what differs; exits 1 if anything does.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

TOLERANCE = 1e-6
QUANTILES = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99}
Record = dict[str, Any]


@cache
def t975(df: float) -> float:
    """97.5% quantile of Student's t: Simpson integration of the density, bisection."""
    norm = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)

    def central(t: float) -> float:
        n = 4000
        h = t / n
        inner = sum((4 if i % 2 else 2) * (1 + (i * h) ** 2 / df) ** (-(df + 1) / 2) for i in range(1, n))
        return norm * h / 3 * (1 + inner + (1 + t * t / df) ** (-(df + 1) / 2))

    low, high = 1.0, 20.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if central(middle) < 0.475 else (low, middle)
    return low


def tokens_per_step(r: Record) -> float:
    first = r["chunks"][0]["tokens"]
    return (r["completion_tokens"] - (1 if first is None else first)) / (len(r["chunks"]) - 1)


FORMULAS = {
    "request_output_throughput": lambda r: r["completion_tokens"] / r["end_s"],
    "time_per_output_token": lambda r: (
        (r["chunks"][-1]["at_s"] - r["chunks"][0]["at_s"]) / (r["completion_tokens"] - 1)
    ),
    "end_to_end_latency": lambda r: r["end_s"],
    "ttft": lambda r: r["chunks"][0]["at_s"],
    "tokens_per_step": tokens_per_step,
    "inter_chunk_latency": lambda r: (r["chunks"][-1]["at_s"] - r["chunks"][0]["at_s"]) / (len(r["chunks"]) - 1),
    "output_tokens": lambda r: float(r["completion_tokens"]),
    "input_tokens": lambda r: float(r["prompt_tokens"]),
}
HIGHER = {"request_output_throughput", "tokens_per_step"}


def busy(records: list[Record]) -> float:
    events: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for r in records:
        events[r["round"], r["session"]] += [(r["sent_s"], 1), (r["sent_s"] + r["end_s"], -1)]
    total = 0.0
    for moments in events.values():
        running, since = 0, 0.0
        for moment, change in sorted(moments, key=lambda item: (item[0], -item[1])):
            if running == 0:
                since = moment
            running += change
            if running == 0:
                total += moment - since
    return total


class Check:
    """Collects what differs."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.checked = 0

    def same(self, what: str, shown: Any, found: Any) -> None:
        self.checked += 1
        if isinstance(shown, float) and isinstance(found, (int, float)):
            if math.isclose(shown, found, rel_tol=TOLERANCE, abs_tol=1e-9):
                return
        elif shown == found:
            return
        self.wrong.append(f"{what}: report {shown!r}, recomputed {found!r}")


def by_prompt(records: list[Record], metric: str) -> dict[int, float]:
    logs: dict[int, list[float]] = defaultdict(list)
    for r in records:
        if r["error"] is None:
            logs[r["index"]].append(math.log(FORMULAS[metric](r)))
    return {index: statistics.fmean(values) for index, values in logs.items()}


def differences(base: list[Record], other: list[Record], metric: str) -> list[float]:
    a, b = by_prompt(base, metric), by_prompt(other, metric)
    sign = 1 if metric in HIGHER else -1
    return [sign * (b[i] - a[i]) for i in sorted(set(a) & set(b))]


def bounds(mean: float, variance: float, df: float) -> tuple[float, float, float]:
    half = t975(df) * math.sqrt(variance)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def check_arm(check: Check, report: dict[str, Any], arm: dict[str, Any], records: list[Record]) -> None:
    name = f"{arm['variant']}/{arm['case']}"
    done = [r for r in records if r["error"] is None]
    check.same(f"{name} requests", arm["requests"], len(records))
    check.same(f"{name} completed", arm["completed"], len(done))
    check.same(
        f"{name} errors",
        arm["errors"],
        dict(sorted(Counter(r["error"]["kind"] for r in records if r["error"]).items())),
    )
    for metric, summary in arm["metrics"].items():
        values = [FORMULAS[metric](r) for r in done]
        check.same(f"{name} {metric} n", summary["n"], len(values))
        check.same(f"{name} {metric} mean", summary["mean"], statistics.fmean(values))
        check.same(f"{name} {metric} stddev", summary["stddev"], statistics.stdev(values) if len(values) > 1 else 0.0)
        check.same(f"{name} {metric} min", summary["min"], min(values))
        check.same(f"{name} {metric} max", summary["max"], max(values))
        for quantile, q in QUANTILES.items():
            cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
            check.same(f"{name} {metric} {quantile}", summary[quantile], cuts[round(q * 100) - 1])
    tokens, seconds = sum(r["completion_tokens"] for r in done), busy(records)
    check.same(f"{name} tokens", arm["output_tokens"], tokens)
    check.same(f"{name} busy", arm["busy_seconds"], seconds)
    check.same(f"{name} throughput", arm["output_throughput"], tokens / seconds)
    if arm["cost_per_million"] is not None:
        context, serving = report["context"], report["experiment"]["serving"]
        share = serving["devices"] / context["devices_per_node"] or 1.0
        cost = context["price_per_node_hour"] * share * seconds / 3600 / (tokens / 1e6)
        check.same(f"{name} cost", arm["cost_per_million"], cost)
    steps = Counter(c["tokens"] for r in done for c in r["chunks"][1:] if c["tokens"] is not None)
    shares = {item["tokens"]: item["share"] for item in arm["steps"]}
    for size, count in steps.items():
        check.same(f"{name} steps of {size}", shares.get(size), count / steps.total())


def check_pair(check: Check, pair: dict[str, Any], records: dict[tuple[str, str], list[Record]]) -> None:
    logs: dict[str, dict[str, list[float]]] = {}
    for case in pair["cases"]:
        name = f"{pair['variant']} vs {pair['baseline']}, {case['case']}"
        base, other = (records[arm, case["case"]] for arm in (pair["baseline"], pair["variant"]))
        logs[case["case"]] = {}
        for estimate in case["speedups"]:
            found = differences(base, other, estimate["metric"])
            logs[case["case"]][estimate["metric"]] = found
            n = len(found)
            ratio, low, high = bounds(statistics.fmean(found), statistics.variance(found) / n, n - 1)
            for key, value in (("ratio", ratio), ("low", low), ("high", high), ("n", n)):
                check.same(f"{name} {estimate['metric']} {key}", estimate[key], value)
        twins = {(r["round"], r["index"]): r["output"] for r in base if r["error"] is None}
        pairs = [(twins.get((r["round"], r["index"])), r["output"]) for r in other if r["error"] is None]
        check.same(f"{name} compared", case["equality"]["compared"], sum(a is not None for a, _ in pairs))
        check.same(f"{name} identical", case["equality"]["identical"], sum(a == b for a, b in pairs))
    for group in pair["groups"]:
        for estimate in group["speedups"]:
            parts = [logs[case][estimate["metric"]] for case in group["cases"]]
            variances = [statistics.variance(part) / len(part) / len(parts) ** 2 for part in parts]
            total = sum(variances)
            df = (
                total**2 / sum(v * v / (len(part) - 1) for v, part in zip(variances, parts, strict=True))
                if total
                else 1e9
            )
            ratio, low, high = bounds(statistics.fmean(map(statistics.fmean, parts)), total, df)
            for key, value in (("ratio", ratio), ("low", low), ("high", high)):
                check.same(f"{pair['variant']} {group['group']} {estimate['metric']} {key}", estimate[key], value)


def check_theory(check: Check, theory: dict[str, Any]) -> None:
    a, c, v = theory["acceptance"], theory["draft_cost"], theory["overhead"]
    for point in theory["points"]:
        k = point["k"]
        tokens = sum(a**i for i in range(k + 1))
        check.same(f"E({k})", point["tokens_per_step"], tokens)
        check.same(f"S({k})", point["speedup"], tokens / (1 + k * c + v) if k else 1.0)
    best = max(theory["points"], key=lambda point: (round(point["speedup"], 12), -point["k"]))
    check.same("best k", theory["best_k"], best["k"])


def recompute(folder: Path) -> Check:
    """Check report.json of a run's folder against its raw files."""
    check = Check()
    report = json.loads((folder / "report.json").read_text())
    records: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for path in sorted((folder / "raw").rglob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if not record["warmup"]:
                records[record["variant"], record["case"]].append(record)
    for arm in report["arms"]:
        check_arm(check, report, arm, records[arm["variant"], arm["case"]])
    for pair in [*report["pairs"], *(chain["total"] for chain in report["chains"])]:
        check_pair(check, pair, records)
    for theory in report["theory"]:
        check_theory(check, theory)
    everything = [record for group in records.values() for record in group]
    if report["cost"]:
        check.same("measured seconds", report["cost"]["measured_seconds"], busy(everything))
        tokens = sum(r["completion_tokens"] for r in everything if r["error"] is None)
        check.same("all output tokens", report["cost"]["output_tokens"], tokens)
        if report["cost"]["total"] is not None:
            hours = report["context"]["node_seconds"] / 3600
            check.same("run cost", report["cost"]["total"], hours * report["context"]["price_per_node_hour"])
    return check


if __name__ == "__main__":
    outcome = recompute(Path(sys.argv[1]))
    print("\n".join(outcome.wrong) or f"{outcome.checked} figures recomputed, all equal")
    sys.exit(1 if outcome.wrong or not outcome.checked else 0)
