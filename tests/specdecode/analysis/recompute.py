"""Recompute every number of report.json from the raw files beside it, with nothing of `specdecode`.

    python tests/specdecode/analysis/recompute.py RUN_FOLDER

Only the standard library, and other algorithms where there is a choice (Student's t by integrating its density). Prints
what differs; exits 1 if anything does.
"""

import json
import math
import statistics
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from recompute_intervals import NODE, Noise, bounds, over_prompts, plus, shared

TOLERANCE = 1e-6
QUANTILES = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99}
Record = dict[str, Any]


def first_tokens(r: Record) -> int:
    """Tokens of the first chunk: counted, or its share of the characters."""
    first = r["chunks"][0]
    if first["tokens"] is not None:
        return int(first["tokens"])
    return max(1, round(r["completion_tokens"] * first["chars"] / sum(c["chars"] for c in r["chunks"])))


def gaps(r: Record) -> list[float]:
    times = [chunk["at_s"] for chunk in r["chunks"]]
    return [after - before for before, after in pairwise(times)]


def each_token(r: Record) -> list[float]:
    """The time of each token after the first chunk, or nothing where the server does not count them by chunk."""
    sizes = [chunk["tokens"] for chunk in r["chunks"][1:]]
    return [] if None in sizes else [gap / n for gap, n in zip(gaps(r), sizes, strict=True) for _ in range(n)]


FORMULAS = {
    "request_output_throughput": lambda r: r["completion_tokens"] / r["end_s"],
    "time_per_output_token": lambda r: sum(gaps(r)) / (r["completion_tokens"] - first_tokens(r)),
    "end_to_end_latency": lambda r: r["end_s"],
    "ttft": lambda r: r["chunks"][0]["at_s"],
    "tokens_per_step": lambda r: (r["completion_tokens"] - first_tokens(r)) / (len(r["chunks"]) - 1),
    "output_tokens": lambda r: float(r["completion_tokens"]),
    "input_tokens": lambda r: float(r["prompt_tokens"]),
}
SEVERAL = {"inter_chunk_latency": gaps, "inter_token_latency": each_token}
HIGHER = {"request_output_throughput", "tokens_per_step"}


def process_of(r: Record) -> tuple[int, int]:
    return r["round"], r["session"]


def load_seconds(records: list[Record]) -> float:
    """First send to last end of each portion that a process sent (a round or a resumed session is a process)."""

    def portion_of(r: Record) -> tuple[Any, ...]:
        return *process_of(r), r.get("portion", 0)

    total = 0.0
    for portion in {portion_of(r) for r in records}:
        own = [r for r in records if portion_of(r) == portion]
        total += max(r["sent_s"] + r["end_s"] for r in own) - min(r["sent_s"] for r in own)
    return total


class Check:
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


def shows(check: Check, what: str, shown: str, values: list[float]) -> None:
    """A number for people is one of `values`, rounded to the digits that it has."""
    plain = shown.replace(",", "").rstrip(".")
    half = 0.5 * 10.0 ** -len(plain.partition(".")[2]) * (1 + 1e-9)
    check.same(f"{what}: {shown} of {values}", True, any(abs(float(plain) - value) <= half for value in values))


def by_prompt(records: list[Record], metric: str) -> dict[int, float]:
    """Index -> mean log over the rounds."""
    logs: dict[int, list[float]] = defaultdict(list)
    for r in records:
        if r["error"] is None:
            logs[r["index"]].append(math.log(FORMULAS[metric](r)))
    return {place: statistics.fmean(values) for place, values in logs.items()}


def differences(base: list[Record], other: list[Record], metric: str) -> list[float]:
    both = set.intersection(*({(r["round"], r["index"]) for r in each if not r["error"]} for each in (base, other)))
    a, b = (by_prompt([r for r in each if (r["round"], r["index"]) in both], metric) for each in (base, other))
    sign = 1 if metric in HIGHER else -1
    began = {r["index"]: r["index"] - r.get("turn", 0) for r in other}  # a conversation is one observation
    talks: dict[int, list[float]] = defaultdict(list)
    for i in sorted(set(a) & set(b)):
        talks[began[i]].append(sign * (b[i] - a[i]))
    return [statistics.fmean(each) for each in talks.values()]


def in_cells(base: list[Record], other: list[Record], metric: str) -> dict[tuple[int, int, int], float]:
    """(round, portion, conversation) -> log speed-up."""
    found = {}
    for number in {r["round"] for r in base} & {r["round"] for r in other}:
        own = [[r for r in each if r["round"] == number] for each in (base, other)]
        a, b = (by_prompt(each, metric) for each in own)
        talks: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for r in sorted(own[1], key=lambda r: r["index"]):
            if r["index"] in a and r["index"] in b:
                gain = (b[r["index"]] - a[r["index"]]) * (1 if metric in HIGHER else -1)
                talks[r["index"] - r.get("turn", 0)].append((r.get("portion", 0), gain))
        for talk, each in talks.items():
            found[number, each[0][0], talk] = statistics.fmean(gain for _, gain in each)
    return found


def same_minutes(
    report: dict[str, Any], records: dict[Any, list[Record]], base: str, other: str, cases: list[str], metric: str
) -> dict[str, Noise]:
    """Case -> the noise that its requests share."""
    held: dict[int, dict[str, list[str]]] = defaultdict(dict)
    for item in report["context"]["device_groups"]:
        held[item["round"]][item["variant"]] = item["devices"]
    swapped = len({str((each.get(base), each.get(other))) for each in held.values()}) > 1
    both = {case: (records[base, case], records[other, case]) for case in cases}
    return shared({case: in_cells(*own, metric) for case, own in both.items()}, swapped=swapped)


def drafted(report: dict[str, Any], variant: str) -> int | None:
    speculation = next(v for v in report["experiment"]["variants"] if v["name"] == variant)["speculation"]
    return speculation["num_speculative_tokens"] if speculation else None


def summary(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
    return {
        "n": len(values),
        "mean": statistics.fmean(values),
        "stddev": statistics.stdev(values) if len(values) > 1 else 0.0,
        "min": min(values),
        "max": max(values),
        **{quantile: cuts[round(q * 100) - 1] for quantile, q in QUANTILES.items()},
    }


def of_metric(records: list[Record], metric: str) -> list[float]:
    """Values of the completed requests."""
    done = [r for r in records if r["error"] is None]
    if metric in SEVERAL:
        return [value for r in done for value in SEVERAL[metric](r)]
    return [FORMULAS[metric](r) for r in done]


def aggregates(report: dict[str, Any], variant: str, records: list[Record]) -> dict[str, Any]:
    """The figures of an arm and case that are one value of all requests."""
    done = [r for r in records if r["error"] is None]
    tokens, seconds = sum(r["completion_tokens"] for r in done), load_seconds(records)
    context, serving = report["context"], report["experiment"]["serving"]
    share = serving["devices"] / context["devices_per_node"] or 1.0
    found = {
        "requests": len(records),
        "completed": len(done),
        "failed": len(records) - len(done),
        "output_tokens": tokens,
        "load_seconds": seconds,
        "error_rate": 1 - len(done) / len(records),
    }
    closed = report["experiment"]["workload"].get("rate") is None
    if closed:
        found |= {"output_throughput": tokens / seconds, "request_throughput": len(done) / seconds}
    if closed and context["price_per_node_hour"] is not None:
        found["cost_per_million"] = context["price_per_node_hour"] / 3600 * share * seconds / tokens * 1e6
    if k := drafted(report, variant):
        later = sum(r["completion_tokens"] - first_tokens(r) for r in done)
        found["acceptance_rate"] = (later / sum(len(r["chunks"]) - 1 for r in done) - 1) / verified(report, k)
    return found


def check_arm(check: Check, report: dict[str, Any], arm: dict[str, Any], records: list[Record]) -> None:
    name, found = f"{arm['variant']}/{arm['case']}", aggregates(report, arm["variant"], records)
    errors = Counter(r["error"]["kind"] for r in records if r["error"])
    check.same(f"{name} errors", arm["errors"], dict(sorted(errors.items())))
    for metric, shown in arm["metrics"].items():
        for statistic, value in summary(of_metric(records, metric)).items():
            check.same(f"{name} {metric} {statistic}", shown[statistic], value)
    for key in ("requests", "completed", "failed", "output_tokens", "load_seconds"):
        check.same(f"{name} {key}", arm[key], found[key])
    for key in ("output_throughput", "request_throughput", "error_rate"):
        check.same(f"{name} {key}", arm["totals"].get(key), found.get(key))
    if "acceptance_rate" in found and arm["acceptance_source"].startswith("estimated"):
        check.same(f"{name} acceptance", arm["totals"]["acceptance_rate"], found["acceptance_rate"])
    if arm["cost_per_million"] is not None:
        check.same(f"{name} cost", arm["cost_per_million"], found.get("cost_per_million"))
    done = [r for r in records if r["error"] is None]
    steps = Counter(c["tokens"] for r in done for c in r["chunks"][1:] if c["tokens"] is not None)
    shares = {item["tokens"]: item["share"] for item in arm["steps"]}
    for size, count in steps.items():
        check.same(f"{name} steps of {size}", shares.get(size), count / steps.total())


def check_pair(check: Check, report: dict[str, Any], pair: dict[str, Any], records: dict[Any, list[Record]]) -> None:
    logs: dict[str, dict[str, list[float]]] = {}
    noises = {
        metric: same_minutes(
            report, records, pair["baseline"], pair["variant"], [c["case"] for c in pair["cases"]], metric
        )
        for metric in {estimate["metric"] for case in pair["cases"] for estimate in case["speedups"]}
    }
    for case in pair["cases"]:
        name = f"{pair['variant']} vs {pair['baseline']}, {case['case']}"
        base, other = (records[arm, case["case"]] for arm in (pair["baseline"], pair["variant"]))
        logs[case["case"]] = {}
        for estimate in case["speedups"]:
            found = differences(base, other, estimate["metric"])
            logs[case["case"]][estimate["metric"]] = found
            n = len(found)
            ratio, low, high = over_prompts(found, noises[estimate["metric"]][case["case"]])
            for key, value in (("ratio", ratio), ("low", low), ("high", high), ("n", n)):
                check.same(f"{name} {estimate['metric']} {key}", estimate[key], value)
        twins = {(r["round"], r["index"]): r["output"] for r in base if r["error"] is None}
        pairs = [(twins.get((r["round"], r["index"])), r["output"]) for r in other if r["error"] is None]
        check.same(f"{name} compared", case["equality"]["compared"], sum(a is not None for a, _ in pairs))
        check.same(f"{name} identical", case["equality"]["identical"], sum(a == b for a, b in pairs))
    for group in pair["groups"]:
        check_group(check, pair["variant"], group, logs)
    if pair["among"]:
        judged = next(group["judged"] for group in pair["groups"] if group["group"] == "all")
        metric = "request_output_throughput"
        check_among(check, report, pair, [(logs[case][metric], noises[metric][case]) for case in judged])


def check_among(
    check: Check, report: dict[str, Any], pair: dict[str, Any], gains: list[tuple[list[float], Noise]]
) -> None:
    """The mean of the cases, each of the same weight, with an interval that holds for all arms of the run."""
    name, among = f"{pair['variant']} among all arms", pair["among"]
    arms = sum(variant["compare_to"] is not None for variant in report["experiment"]["variants"])
    level = max(0.96, 1 - 0.08 / arms)
    n = len(gains)

    def on(elsewhere: bool) -> tuple[float, float, float]:
        node = [NODE] if elsewhere else []
        if n == 1:
            return over_prompts(gains[0][0], gains[0][1], *node, level=level)
        cases = [plus((statistics.variance(own) / len(own), len(own) - 1), noise) for own, noise in gains]
        parts = [(variance / n**2, df) for variance, df in cases]
        mean = statistics.fmean(statistics.fmean(own) for own, _ in gains)
        return bounds(mean, *plus(plus(parts[0], *parts[1:]), *node), level)

    ratio, low, high = on(False)
    check.same(f"{name}, arms", among["arms"], arms)
    for key, value in (("ratio", ratio), ("low", low), ("high", high), ("n", sum(len(own) for own, _ in gains))):
        check.same(f"{name}, {key}", among["speedup"][key], value)
    check.same(f"{name}, faster", among["faster"], low > 1.0)
    check.same(f"{name}, elsewhere", among["elsewhere"], on(True)[1] > 1.0)


def check_group(check: Check, variant: str, group: dict[str, Any], logs: dict[str, dict[str, list[float]]]) -> None:
    """The mean of the prompt types; from five on an interval over types, and one for the next type."""
    many = len(group["judged"]) >= 5
    for estimate in group["speedups"]:
        means = [statistics.fmean(logs[case][estimate["metric"]]) for case in group["judged"]]
        name, n = f"{variant} {group['group']} {estimate['metric']}", len(means)
        check.same(f"{name} ratio", estimate["ratio"], math.exp(statistics.fmean(means)))
        low = high = None
        if many:
            _, low, high = bounds(statistics.fmean(means), statistics.variance(means) / n, n - 1, 0.99)
        check.same(f"{name} low", estimate["low"], low)
        check.same(f"{name} high", estimate["high"], high)
        if estimate["metric"] == "request_output_throughput":
            ends = (math.exp(min(means)), math.exp(max(means)))
            check.same(f"{name} smallest", group["range"]["low"], ends[0])
            check.same(f"{name} largest", group["range"]["high"], ends[1])
            if many:
                _, low, high = bounds(statistics.fmean(means), statistics.variance(means) * (1 + 1 / n), n - 1, 0.975)
                check.same(f"{name} next low", group["next"][0], low)
                check.same(f"{name} next high", group["next"][1], high)


def acceptance(tokens: float, k: int) -> float:
    """The a with 1 + a + … + a^k = tokens, by Newton's method."""
    a = 0.5
    for _ in range(200):
        value = sum(a**i for i in range(k + 1)) - tokens
        a = min(1.0, max(0.0, a - value / sum(i * a ** (i - 1) for i in range(1, k + 1))))
    return a


def verified(report: dict[str, Any], k: int) -> int:
    """Drafts that a step verifies: NxD Inference's engines leave one out."""
    return k - report["experiment"]["engine"].startswith(("0.9.1-", "0.16.0-"))


def check_theory(check: Check, report: dict[str, Any], theory: dict[str, Any], pairs: list[dict[str, Any]]) -> None:
    found = []
    for item in theory["measured"]:
        pair = next(pair for pair in pairs if pair["variant"] == item["variant"])
        group = next(group for group in pair["groups"] if group["group"] == theory["group"])
        by_metric = {estimate["metric"]: estimate for estimate in group["speedups"]}
        check.same(f"measured at k={item['k']}", item["speedup"], by_metric["time_per_output_token"]["ratio"])
        found.append(acceptance(by_metric["tokens_per_step"]["ratio"], verified(report, item["k"])))
    check.same(f"a, {theory['group']}", theory["acceptance"], statistics.fmean(found))


def together(groups: list[list[Record]]) -> float:
    """Time in which any of the arms was loaded."""
    events: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for records in groups:
        for process in {process_of(r) for r in records}:
            own = [r for r in records if process_of(r) == process]
            events[process] += [(min(r["sent_s"] for r in own), 1), (max(r["sent_s"] + r["end_s"] for r in own), -1)]
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


def loads(report: dict[str, Any]) -> dict[str, float]:
    """Name -> size of each load, in the experiment's order."""
    workload = report["experiment"]["workload"]
    letter, sizes = ("r", workload["rate"]) if workload.get("rate") else ("c", workload["concurrency"])
    return {f"{letter}{size:g}": float(size) for size in (sizes if isinstance(sizes, list) else [sizes])}


def by_load(folder: Path, report: dict[str, Any]) -> dict[str, dict[tuple[str, str], list[Record]]]:
    """Load -> arm and case -> measured records. Records of a run of one load need not name it."""
    names = list(loads(report))
    found: dict[str, dict[tuple[str, str], list[Record]]] = {name: defaultdict(list) for name in names}
    for path in sorted((folder / "raw").rglob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if not record["warmup"]:
                found[record["level"] or names[0]][record["variant"], record["case"]].append(record)
    return found


def recompute(folder: Path) -> Check:
    """Check report.json of a run's folder against its raw files; of several loads all that is of the first."""
    check = Check()
    report = json.loads((folder / "report.json").read_text())
    records = next(iter(by_load(folder, report).values()))
    for arm in report["arms"]:
        check_arm(check, report, arm, records[arm["variant"], arm["case"]])
    for pair in [*report["pairs"], *(chain["total"] for chain in report["chains"])]:
        check_pair(check, report, pair, records)
    for theory in report["theory"]:
        check_theory(check, report, theory, report["pairs"])
    everything = [record for group in records.values() for record in group]
    if report["cost"]:
        check.same("measured seconds", report["cost"]["measured_seconds"], together(list(records.values())))
        tokens = sum(r["completion_tokens"] for r in everything if r["error"] is None)
        check.same("all output tokens", report["cost"]["output_tokens"], tokens)
        if report["cost"]["total"] is not None:
            hours = report["context"]["node_seconds"] / 3600
            check.same("run cost", report["cost"]["total"], hours * report["context"]["price_per_node_hour"])
    return check


def main(found: Check) -> None:
    print("\n".join(found.wrong) or f"{found.checked} figures recomputed, all equal")
    sys.exit(1 if found.wrong or not found.checked else 0)


if __name__ == "__main__":
    main(recompute(Path(sys.argv[1])))
