"""Recompute every figure of report.csv, cloudwatch.json and terminal.txt from the raw files beside them.

    python tests/specdecode/analysis/recompute_forms.py RUN_FOLDER

As recompute.py beside it, whose formulas it takes: nothing of `specdecode`, only the standard library. A figure that it
has no formula for counts as wrong, so that a new one needs one here. From report.json it takes names, prices and labels
only. What the advisor expects of arms that were not measured is a model's belief, and is not recomputed.
"""

import csv
import json
import math
import re
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import recompute as raw

Key = tuple[str, str]
SENT = {
    "TTFT": "ttft",
    "InterTokenLatency": "time_per_output_token",
    "EndToEndLatency": "end_to_end_latency",
    "RequestOutputThroughput": "request_output_throughput",
    "InputTokens": "input_tokens",
    "OutputTokens": "output_tokens",
    "TokensPerStep": "tokens_per_step",
}
HEADLINE = "request_output_throughput"
SHORT = ("time_per_output_token", "tokens_per_step")
"""What the terminal's fifth and sixth column show the speed-up of."""
NUMBER = re.compile(r"(\d[\d,]*\.?\d*)")


class Run:
    """The raw files of a run, and the figures that follow from them."""

    def __init__(self, folder: Path) -> None:
        self.report = json.loads((folder / "report.json").read_text())
        self.records = next(iter(raw.by_load(folder, self.report).values()))
        experiment = self.report["experiment"]
        self.variants = {item["name"]: item for item in experiment["variants"]}
        self.labels = {item["label"]: item["name"] for item in experiment["variants"]}
        self.cases = {item["label"]: item["name"] for item in experiment["workload"]["cases"]}

    def beside(self, variant: str, base: str, case: str) -> tuple[list[raw.Record], list[raw.Record]]:
        """The baseline's records, and the arm's."""
        return self.records[base, case], self.records[variant, case]

    def aggregate(self, key: Key, name: str) -> float | None:
        """One value of an arm and case; None where there is no formula for it here."""
        return raw.aggregates(self.report, key[0], self.records[key]).get(name)

    def speedup(self, variant: str, base: str, case: str, metric: str) -> tuple[float, float, float, int]:
        """Ratio, low, high and number of pairs."""
        found = raw.differences(*self.beside(variant, base, case), metric)
        cases = [name for name in self.cases.values() if (variant, name) in self.records]
        noise = raw.same_minutes(self.report, self.records, base, variant, cases, metric)[case]
        return (*raw.over_prompts(found, noise), len(found))

    def identical(self, variant: str, base: str, case: str) -> tuple[int, int]:
        """Pairs of answers that are equal, of how many."""
        first, second = (
            {(record["round"], record["index"]): record["output"] for record in own if record["error"] is None}
            for own in self.beside(variant, base, case)
        )
        both = [(first.get(place), output) for place, output in second.items()]
        return sum(a == b for a, b in both), sum(a is not None for a, _ in both)

    def comparable(self, variant: str, base: str, case: str) -> bool:
        """Whether few enough requests failed."""
        both = self.beside(variant, base, case)
        return max(sum(record["error"] is not None for record in own) / len(own) for own in both) <= 0.05

    def verdict(self, variant: str, base: str, case: str) -> str:
        if not self.comparable(variant, base, case):
            return "cannot tell"
        _, low, high, _ = self.speedup(variant, base, case, HEADLINE)
        if low > 1 / 1.05 and high < 1.05:
            return "no relevant difference"
        return "pays" if low > 1 else "costs" if high < 1 else "cannot tell"


def check_csv(check: raw.Check, run: Run, text: str) -> None:
    for row in csv.DictReader(text.splitlines()):
        key, name = (row["variant"], row["case"]), f"CSV {row['variant']}/{row['case']} {row['metric']}"
        if row["kind"] == "metric":
            stated = raw.summary(raw.of_metric(run.records[key], row["metric"]))
        elif row["kind"] == "decision":  # words, without a figure
            continue
        elif row["kind"] == "aggregate":
            stated = {"value": run.aggregate(key, row["metric"])}
        else:
            found = run.speedup(row["variant"], row["baseline"], row["case"], row["metric"])
            stated = dict(zip(("value", "low", "high", "n"), found, strict=True))
            if row["verdict"]:
                check.same(f"{name} verdict", row["verdict"], run.verdict(row["variant"], row["baseline"], row["case"]))
        numbers = {"n", "mean", "stddev", "min", "max", "value", "low", "high", *raw.QUANTILES}
        for column in numbers:
            if row[column] or column in stated:
                check.same(f"{name} {column}", float(row[column] or "nan"), stated.get(column))


def check_cloudwatch(check: raw.Check, run: Run, data: list[dict[str, Any]]) -> None:
    seen = Counter[tuple[str, str, str]]()
    for datum in data:
        places = {item["Name"]: item["Value"] for item in datum["Dimensions"]}
        key, metric = (run.labels[places["Variant"]], run.cases[places["TestCase"]]), datum["MetricName"]
        name, base = f"CloudWatch {'/'.join(key)} {metric}", run.variants[key[0]]["compare_to"]
        seen[*key, metric] += 1
        shown = sorted(v for v, n in zip(datum["Values"], datum["Counts"], strict=True) for _ in range(int(n)))
        if metric in SENT:
            wanted = sorted(raw.of_metric(run.records[key], SENT[metric]))
        elif metric == "Speedup":
            wanted = [run.speedup(key[0], base, key[1], HEADLINE)[0]]
        elif metric == "OutputsIdentical":
            equal, compared = run.identical(key[0], base, key[1])
            wanted = [equal / compared]
        else:
            single = {"CostPerMillionOutputTokens": "cost_per_million"}.get(metric)
            value = run.aggregate(key, single or re.sub(r"(?<!^)(?=[A-Z])", "_", metric).lower())
            wanted = [] if value is None else [value]
        check.same(f"{name} n", len(shown), len(wanted))
        for left, right in zip(shown, wanted, strict=False):
            check.same(name, left, right)
    for key in run.records:
        for metric in (*SENT, "ErrorRate", "CostPerMillionOutputTokens"):
            check.same(f"CloudWatch {'/'.join(key)} {metric} with both sets of dimensions", seen[*key, metric], 2)


def check_terminal(check: raw.Check, run: Run, text: str) -> None:
    """Each cell of its tables, the ratios of its answer, the price of the run."""
    pair: tuple[str, str] | None = None
    rows = 0
    for line in text.splitlines():
        if found := re.fullmatch(r"(\S+) against (\S+)", line):
            pair = (found[1], found[2])
        cells = re.split(r" {2,}", line)
        if pair and len(cells) == 9 and cells[0] in run.cases.values():
            rows += 1
            _check_row(check, run, pair, cells)
        if found := re.search(r"This run held one for .*: \$([\d.,]+)\.", line):
            hours = run.report["context"]["node_seconds"] / 3600
            raw.shows(
                check, "terminal: dollars of the run", found[1], [hours * run.report["context"]["price_per_node_hour"]]
            )
    check.same("terminal rows", rows, sum(len(p["cases"]) for p in run.report["pairs"]))
    ratios = [
        run.speedup(name, item["compare_to"], case, HEADLINE)[0]
        for name, item in run.variants.items()
        if item["compare_to"]
        for case in run.cases.values()
    ]
    if found := re.match(r"Use (\S+) .*?: ([\d.]+)×", text):
        base = run.variants[found[1]]["compare_to"]
        judged = [case for case in run.cases.values() if run.comparable(found[1], base, case)]
        logs = [math.log(run.speedup(found[1], base, case, HEADLINE)[0]) for case in judged]
        raw.shows(check, "terminal: ratio of the headline", found[2], [math.exp(statistics.fmean(logs))])
    answer = text[text.index("For which prompts?") :].split("\n\n")[0]
    for shown in re.findall(r"([\d.,]+)×", answer):
        raw.shows(check, "terminal: ratio of the answer", shown, ratios)


def _check_row(check: raw.Check, run: Run, pair: tuple[str, str], cells: list[str]) -> None:
    case, name = cells[0], f"terminal {pair[0]} in {cells[0]}"
    check.same(f"{name} verdict", cells[1], run.verdict(*pair, case))
    for shown, value in zip(NUMBER.findall(cells[2]), run.speedup(*pair, case, HEADLINE)[:3], strict=True):
        raw.shows(check, f"{name} speed-up", shown, [value])
    for cell, metric in zip(cells[3:5], SHORT, strict=True):
        raw.shows(check, f"{name} {metric}", NUMBER.findall(cell)[0], [run.speedup(*pair, case, metric)[0]])
    check.same(f"{name} same output", tuple(map(int, NUMBER.findall(cells[5]))), run.identical(*pair, case))
    costs = [run.aggregate((arm, case), "cost_per_million") or math.nan for arm in (pair[1], pair[0])]
    for shown, value in zip(NUMBER.findall(cells[6]), costs, strict=True):
        raw.shows(check, f"{name} cost", shown, [value])


def recompute(folder: Path) -> raw.Check:
    """Check the three forms in a run's folder against its raw files."""
    check, run = raw.Check(), Run(folder)
    check_csv(check, run, (folder / "report.csv").read_text())
    check_cloudwatch(check, run, json.loads((folder / "cloudwatch.json").read_text()))
    check_terminal(check, run, (folder / "terminal.txt").read_text())
    return check


if __name__ == "__main__":
    raw.main(recompute(Path(sys.argv[1])))
