"""Recompute a run's answer over the load, and LLMPerf's files of every load, from the raw files beside them.

    python tests/specdecode/analysis/recompute_load.py RUN_FOLDER

As recompute.py beside it, whose formulas it takes and those of recompute_noise.py: nothing of `specdecode`, only the
standard library. It checks curve and objective in report.json, what the charts of report.html draw, the tables of
report.md, and the files of llmperf/. The interval of a crossover is drawn anew from another seed: it has to agree
within 3%.
"""

import json
import math
import random
import re
import statistics
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import recompute as raw
from recompute_noise import LogGain, pooled, shared_noise, student, zero

Key = tuple[str, str]
HEADLINE, DECODING, STEPS, TTFT = "request_output_throughput", "time_per_output_token", "tokens_per_step", "ttft"
SHOWN = 0.98
DRAWS, AGREES = 4000, 0.03


def per_round(base: list[list[raw.Record]], other: list[list[raw.Record]]) -> list[float]:
    """The mean gain of each round, of those that have every case."""
    found = []
    for number in sorted({record["round"] for records in other for record in records}):
        own = [[[r for r in records if r["round"] == number] for records in side] for side in (base, other)]
        gains = [raw.differences(a, b, HEADLINE) for a, b in zip(*own, strict=True)]
        if all(gains):
            found.append(statistics.fmean(map(statistics.fmean, gains)))
    return found


def completed(records: list[raw.Record]) -> list[raw.Record]:
    return [record for record in records if record["error"] is None]


def values(cases: list[list[raw.Record]], metric: str) -> list[float]:
    return [raw.FORMULAS[metric](record) for records in cases for record in completed(records)]


def cut(found: list[float], percent: int) -> float:
    return statistics.quantiles(found, n=100, method="inclusive")[percent - 1]


def good(slo: dict[str, Any], records: list[raw.Record]) -> int:
    """Requests that completed and kept to every limit."""
    limits = [("ttft_s", TTFT), ("tpot_s", DECODING), ("e2e_s", "end_to_end_latency")]
    asked = [(slo[name], raw.FORMULAS[metric]) for name, metric in limits if slo.get(name) is not None]
    return sum(all(formula(record) <= limit for limit, formula in asked) for record in completed(records))


def met(records: list[raw.Record]) -> float:
    """Requests that one met under way, itself among them: the overlaps of each with all, over its own time."""
    spans = [(record["session"], record["sent_s"], record["sent_s"] + record["end_s"]) for record in records]
    return statistics.fmean(
        sum(
            max(0.0, min(end, other_end) - max(start, other_start))
            for other, other_start, other_end in spans
            if other == session
        )
        / (end - start)
        for session, start, end in spans
    )


def late(records: list[raw.Record]) -> bool:
    """Whether the load generator fell behind. The end of an answer is sure where not all of its chunks are doubtful."""
    marked = [r for r in records if r["time_doubt_s"] > 0.005]
    known = [r.get("doubtful_chunks") for r in marked]
    wrong = [len(r["chunks"]) if count is None else count for r, count in zip(marked, known, strict=True)]
    whole = [count >= len(r["chunks"]) for r, count in zip(marked, wrong, strict=True)]
    wrong_s = sum(min(r["time_doubt_s"], r["end_s"]) for r, all_of_it in zip(marked, whole, strict=True) if all_of_it)
    first = [
        all_of_it or r["chunks"][0]["at_s"] == r["chunks"][1]["at_s"]
        for r, all_of_it in zip(marked, whole, strict=True)
    ]
    if wrong_s > 0.02 * sum(r["end_s"] for r in records):
        return True
    mostly = sum(whole) > 0.5 * len(records)
    if mostly and (sum(wrong) > 0.01 * sum(len(r["chunks"]) for r in records) or sum(first) > 0.01 * len(records)):
        return True
    return any(r["scheduled_s"] is not None and r["sent_s"] - r["scheduled_s"] > 0.1 for r in records)


class Run:
    """The raw files of a run at several loads."""

    def __init__(self, folder: Path) -> None:
        self.report = json.loads((folder / "report.json").read_text())
        self.records = raw.by_load(folder, self.report)
        self.sizes = dict(sorted(raw.loads(self.report).items(), key=lambda item: item[1]))
        self.slo = self.report["experiment"]["workload"]["slo"]
        self.asked = any(self.slo.get(name) for name in ("ttft_s", "tpot_s", "e2e_s"))

    def cases(self, load: str, arm: str, cases: list[str]) -> list[list[raw.Record]]:
        return [self.records[load][arm, case] for case in cases]

    def gain(self, load: str, base: str, arm: str, cases: list[str], metric: str = HEADLINE) -> LogGain:
        both = zip(self.cases(load, base, cases), self.cases(load, arm, cases), strict=True)
        return pooled([raw.differences(first, second, metric) for first, second in both])

    def doubtful(self, load: str, base: str, arm: str, cases: list[str]) -> bool:
        return any(late([r for records in self.cases(load, name, cases) for r in records]) for name in (base, arm))

    def place(self, load: str, arm: str, cases: list[str]) -> float:
        """Requests under way in the batch, or sent a second."""
        if load.startswith("r"):
            return self.sizes[load]
        return self.under_way(load, arm, cases) * self.served(load)

    def noise(self, base: str, arm: str, cases: list[str], loads: list[str]) -> tuple[float, float, str]:
        known = [load for load in loads if not self.doubtful(load, base, arm, cases)]
        return shared_noise(
            [self.place(load, arm, cases) for load in known],
            [per_round(self.cases(load, base, cases), self.cases(load, arm, cases)) for load in known],
        )

    def whole_gain(self, load: str, base: str, arm: str, cases: list[str], noise: tuple[float, float, str]) -> LogGain:
        """With the shared noise: Satterthwaite's degrees of freedom of the sum."""
        alone = self.gain(load, base, arm, cases)
        one, df, _ = noise
        shared = one / len(per_round(self.cases(load, base, cases), self.cases(load, arm, cases)))
        variance = alone.variance + shared
        return LogGain(alone.mean, variance, variance**2 / (alone.variance**2 / alone.df + shared**2 / df))

    def arm(self, load: str, name: str, cases: list[str]) -> dict[str, float | None]:
        own = self.cases(load, name, cases)
        rate = (
            float(load[1:]) if load[0] == "r" else None
        )  # all that is divided by seconds does not depend on the server
        seconds = sum(raw.load_seconds(each) if rate is None else len(each) / rate for each in own)
        tokens = sum(record["completion_tokens"] for records in own for record in completed(records))
        kept = sum(good(self.slo, records) for records in own)
        context, serving = self.report["context"], self.report["experiment"]["serving"]
        price = context["price_per_node_hour"] if rate is None else None
        share = serving["devices"] / context["devices_per_node"] or 1.0
        times = {metric: values(own, metric) for metric in (TTFT, DECODING)}
        return {
            "output_throughput": tokens / seconds if rate is None else None,
            "user_speed": statistics.median(values(own, HEADLINE)),
            "ttft_p50": statistics.median(times[TTFT]),
            "ttft_p95": cut(times[TTFT], 95),
            "tpot_p50": statistics.median(times[DECODING]),
            "tpot_p95": cut(times[DECODING], 95),
            "cost_per_million": None if price is None else price / 3600 * share * seconds / tokens * 1e6,
            "good_share": kept / sum(map(len, own)) if self.asked else None,
            "goodput": kept / seconds if self.asked else None,
        }

    def base_s(self, load: str, base: str, cases: list[str]) -> float:
        """Time per token of whole requests."""
        means = [
            statistics.fmean(raw.by_prompt(records, HEADLINE).values()) for records in self.cases(load, base, cases)
        ]
        return math.exp(-statistics.fmean(means))

    def served(self, load: str) -> float:
        """Share of a load that fits into the servers' batch; 1 where the batch is not known."""
        experiment = self.report["experiment"]
        known = all(variant.get("endpoint") is None for variant in experiment["variants"])
        if not known or load.startswith("r"):
            return 1.0
        return min(1.0, experiment["serving"]["max_num_seqs"] / self.sizes[load])

    def under_way(self, load: str, arm: str, cases: list[str]) -> float:
        return statistics.fmean(met(records) for records in self.cases(load, arm, cases))


def check_curve(check: raw.Check, run: Run, curve: dict[str, Any]) -> None:
    base, arm, cases = curve["baseline"], curve["variant"], curve["cases"]
    name = f"curve {arm} {curve['group']}"
    loads = [load for load in run.sizes if load in {_load(point["level"]) for point in curve["points"]}]
    check.same(f"{name} loads", [_load(point["level"]) for point in curve["points"]], loads)
    gains = []
    noise = run.noise(base, arm, cases, loads)
    check.same(f"{name} shared noise", curve["shared"], math.sqrt(noise[0]))
    check.same(f"{name} shared noise from", curve["shared_from"], noise[2])
    for load, point in zip(loads, curve["points"], strict=False):
        where = f"{name} at {load}"
        gains.append(gain := run.whole_gain(load, base, arm, cases, noise))
        ratio, low, high = raw.bounds(*gain)
        for key, found in (("ratio", ratio), ("low", low), ("high", high)):
            check.same(f"{where} speed-up {key}", point["speedup"][key], found)
        for side, variant in (("base", base), ("other", arm)):
            for key, found in run.arm(load, variant, cases).items():
                check.same(f"{where} {variant} {key}", point[side][key], found)
        way = [run.under_way(load, variant, cases) for variant in (base, arm)]
        check.same(f"{where} under way", point["under_way"], statistics.fmean(way))
        accepted = statistics.fmean(values(run.cases(load, arm, cases), STEPS))
        faster = math.exp(run.gain(load, base, arm, cases, DECODING).mean)
        check.same(f"{where} acceptance length", point["acceptance_length"], accepted)
        check.same(f"{where} break-even", point["break_even"], accepted / faster)
        served = run.report["experiment"]["serving"]["max_num_seqs"]
        at_once = run.sizes[load] if load.startswith("c") else statistics.fmean(way)
        known = all(variant.get("endpoint") is None for variant in run.report["experiment"]["variants"])
        check.same(f"{where} queueing", point["queueing"], known and at_once > served)
        check.same(f"{where} doubtful", point["doubtful"], run.doubtful(load, base, arm, cases))
    sure = [(load, gain) for load, gain in zip(loads, gains, strict=True) if not run.doubtful(load, base, arm, cases)]
    places = crossovers(run, base, arm, cases, [load for load, _ in sure], [gain for _, gain in sure])
    check.same(f"{name} crossovers", [each["direction"] for each in curve["crossovers"]], [each[3] for each in places])
    for shown, (load_at, low, high, _) in zip(curve["crossovers"], places, strict=False):
        check.same(f"{name} crossover", shown["load"], load_at)
        for key, found in (("low", low), ("high", high)):
            check.same(f"{name} crossover {key} {shown[key]} {found}", True, abs(shown[key] / found - 1) <= AGREES)


def _load(level: dict[str, Any]) -> str:
    return f"r{level['rate']:g}" if level.get("rate") is not None else f"c{level['concurrency']}"


def crossovers(
    run: Run, base: str, arm: str, cases: list[str], loads: list[str], gains: list[LogGain]
) -> list[tuple[float, float, float, str]]:
    """Place, interval and direction of each change of side that is shown."""
    sides = []
    for number, gain in enumerate(gains):
        above = gain.above()
        if max(above, 1 - above) >= SHOWN:
            sides.append((number, above))
    lines = [
        (run.place(load, arm, cases), run.place(load, base, cases), run.base_s(load, base, cases) * run.served(load))
        for load in loads
    ]
    found = []
    for (first, before), (last, after) in pairwise(sides):
        sure = max(before, 1 - before) * max(after, 1 - after)
        if (before > 0.5) == (after > 0.5) or sure < SHOWN:
            continue
        part, own = lines[first : last + 1], gains[first : last + 1]
        place = zero(part, [gain.mean for gain in own])
        rng = random.Random(20261122)
        drawn = sorted(at for _ in range(DRAWS) if (at := zero(part, [student(gain, rng) for gain in own])) is not None)
        if place is not None and drawn:
            ends = statistics.quantiles(drawn, n=1000, method="inclusive")
            low, high = min(place, ends[24]), max(place, ends[974])
            for (left, right), (below, above) in zip(pairwise(loads[first : last + 1]), pairwise(part), strict=True):
                lost = any(run.sizes[left] < size < run.sizes[right] for size in run.sizes.values())
                if lost and low < above[0] and high > below[0]:
                    low, high = min(low, below[0]), max(high, above[0])
            found.append((place, low, high, "stops" if before > 0.5 else "starts"))
    return found


def check_objective(check: raw.Check, run: Run) -> None:
    if not run.asked:
        check.same("objectives", run.report["objective"], [])
    for found in run.report["objective"]:
        kept, lost = None, False
        for shown in found["loads"]:
            load = _load(shown["level"])
            arms, there = {arm for arm, _ in run.records[load]}, run.records[load].items()
            of_all = {case for _, case in run.records[load] if all((arm, case) in run.records[load] for arm in arms)}
            own = [records for (arm, case), records in there if arm == found["variant"] and case in of_all]
            rate = float(load[1:]) if load[0] == "r" else None
            seconds = sum(raw.load_seconds(each) if rate is None else len(each) / rate for each in own)
            count, every = sum(good(run.slo, records) for records in own), sum(map(len, own))
            name = f"objective {found['variant']} at {load}"
            check.same(f"{name} requests", shown["requests"], every)
            check.same(f"{name} good", shown["good"], count)
            check.same(f"{name} goodput", shown["goodput"], count / seconds)
            queued = rate is not None and any(len(each) / rate * 3 < 2 * raw.load_seconds(each) for each in own)
            check.same(f"{name} enough", shown["enough"], not queued)
            check.same(f"{name} doubtful", shown["doubtful"], late([record for each in own for record in each]))
            lost = lost or queued or count / every < run.slo["share"]
            kept = kept if lost else load
        check.same(f"objective {found['variant']} keeps", found["keeps"] and _load(found["keeps"]), kept)


def check_page(check: raw.Check, run: Run, page: str) -> None:
    """What the charts draw, from the page itself."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    drawn = json.loads(match[1])["curves"] if match else []
    check.same("curves on the page", bool(drawn), bool(run.report["curve"]))
    for curve in drawn:
        (told,) = [
            each
            for each in run.report["curve"]
            if (each["baseline"], each["variant"], each["group"]) == (curve["baseline"], curve["variant"], "all")
        ]
        arms = curve["baseline"], curve["variant"], told["cases"]
        loads = [_load(each["level"]) for each in told["points"]]
        noise = run.noise(*arms, loads)
        for load, point in zip(loads, curve["points"], strict=True):
            name = f"page {curve['variant']} at {load}"
            check.same(f"{name} load", _load(point["level"]), load)
            gain = raw.bounds(*run.whole_gain(load, *arms, noise))
            for key, found in zip(("ratio", "low", "high"), gain, strict=True):
                check.same(f"{name} speed-up", point["speedup"][key], found)
            for side, variant in (("base", curve["baseline"]), ("other", curve["variant"])):
                for key, found in run.arm(load, variant, told["cases"]).items():
                    check.same(f"{name} {variant} {key}", point[side][key], found)


def check_markdown(check: raw.Check, run: Run, text: str) -> None:
    """Speed-up, throughput and user's speed of each row of the tables over the load."""
    text = text.replace("\\", "")
    tables = re.findall(r"^### (\S+)(?: against (\S+))? over the load$(.*?)(?=^##|\Z)", text, re.M | re.S)
    check.same("tables of Markdown", bool(tables), bool(run.report["curve"]))
    for arm, base, table in tables:
        whole = [each for each in run.report["curve"] if (each["variant"], each["group"]) == (arm, "all")]
        told = next(each for each in whole if base in ("", each["baseline"]))
        rows = [line.strip("| ").split(" | ") for line in table.splitlines() if re.match(r"\| [\d.]+ ", line)]
        check.same(f"Markdown {arm} rows", len(rows), len(told["points"]))
        arms = told["baseline"], arm, told["cases"]
        noise = run.noise(*arms, [_load(each["level"]) for each in told["points"]])
        for cells, point in zip(rows, told["points"], strict=False):
            load = _load(point["level"])
            gain = raw.bounds(*run.whole_gain(load, *arms, noise))
            both = [run.arm(load, name, told["cases"]) for name in (told["baseline"], arm)]
            keys = [key for key in ("output_throughput", "user_speed") if both[0][key] is not None]
            wanted = [*gain, *(each[key] for key in keys for each in both)]
            shown = [found for cell in cells[1 : 2 + len(keys)] for found in re.findall(r"\d[\d,]*\.?\d*", cell)]
            check.same(f"Markdown {arm} at {load} figures", len(shown), len(wanted))
            for figure, found in zip(shown, wanted, strict=False):
                raw.shows(check, f"Markdown {arm} at {load}", figure, [found or 0.0])


def check_llmperf(check: raw.Check, run: Run, folder: Path) -> None:
    """Both files of every arm, case and load, where the run has written them."""
    if not (folder / "llmperf").exists():
        return
    for load, arms in run.records.items():
        for (arm, case), records in arms.items():
            place = folder / "llmperf" / arm / case / (load if len(run.records) > 1 else "")
            (summary,), (each,) = (
                [json.loads(path.read_text()) for path in place.glob(f"*_{kind}.json")]
                for kind in ("summary", "individual_responses")
            )
            name, done = f"LLMPerf {arm}/{case} at {load}", completed(records)
            seconds, tokens = raw.load_seconds(records), sum(record["completion_tokens"] for record in done)
            check.same(f"{name} responses", len(each), len(records))
            check.same(f"{name} started", summary["results_num_requests_started"], len(records))
            check.same(f"{name} completed", summary["results_num_completed_requests"], len(done))
            check.same(f"{name} throughput", summary["results_mean_output_throughput_token_per_s"], tokens / seconds)
            check.same(f"{name} a minute", summary["results_num_completed_requests_per_min"], len(done) / seconds * 60)
            streams = round(run.sizes[load]) if load.startswith("c") else 1
            check.same(f"{name} streams", summary["num_concurrent_requests"], streams)
            for field, metric in (
                ("ttft_s", TTFT),
                ("end_to_end_latency_s", "end_to_end_latency"),
                ("request_output_throughput_token_per_s", HEADLINE),
                ("number_output_tokens", "output_tokens"),
            ):
                found = values([records], metric)
                shown = [response[field] for response in each if response["error_code"] is None]
                for left, right in zip(sorted(shown), sorted(found), strict=True):
                    check.same(f"{name} {field}", float(left), right)
                check.same(f"{name} {field} mean", summary[f"results_{field}_mean"], statistics.fmean(found))
                for percent in (25, 50, 75, 90, 95, 99):
                    check.same(
                        f"{name} {field} p{percent}",
                        summary[f"results_{field}_quantiles_p{percent}"],
                        cut(found, percent),
                    )
            codes = Counter(response["error_code"] for response in each if response["error_code"] is not None)
            check.same(f"{name} errors", summary["results_number_errors"], codes.total())


def recompute(folder: Path) -> raw.Check:
    """Check all that a run's folder says of its loads."""
    check, run = raw.Check(), Run(folder)
    for curve in run.report["curve"]:
        check_curve(check, run, curve)
    check_objective(check, run)
    check_page(check, run, (folder / "report.html").read_text())
    check_markdown(check, run, (folder / "report.md").read_text())
    check_llmperf(check, run, folder)
    return check


if __name__ == "__main__":
    raw.main(recompute(Path(sys.argv[1])))
