"""Recompute which k may be as fast as the chosen one, and where the whole server does not gain as a request does.

    python tests/specdecode/analysis/recompute_choice.py RUN_FOLDER

As recompute_load.py beside it, whose formulas it takes: nothing of `specdecode`, only the standard library. It checks
`rivals` and `failed` of each range of k in report.json, and the sentence about the server in its answer.
"""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import recompute as raw
from recompute_load import Run

MAX_FAILED = 0.05
SERVER = re.compile(
    r"At ([\d., ]+) at a time a request is (faster|slower), but the server as a whole writes (?:fewer|more) tokens a "
    r"second with (\S+) \(([^)]*)\)\."
)


def failed(run: Run, load: str, arm: str, cases: list[str]) -> bool:
    """Whether more than MAX_FAILED of the requests failed, or the arm has none of a case."""
    own = [run.records[load].get((arm, case), []) for case in cases]
    lost = sum(r["error"] is not None for each in own for r in each)
    return not all(own) or lost > MAX_FAILED * sum(map(len, own))


def check_schedule(check: raw.Check, run: Run, schedule: dict[str, Any]) -> None:
    """Of each range: the other k's that are not shown to be slower at each of its loads, and those that failed."""
    drafts = {
        each["name"]: each["speculation"]["num_speculative_tokens"]
        for each in run.report["experiment"]["variants"]
        if each["speculation"] and each["speculation"]["draft"]["id"] == schedule["draft"]
    }
    pairs = [each for each in run.report["pairs"] if each["variant"] in drafts]
    arms = {0: pairs[0]["baseline"]} | {drafts[each["variant"]]: each["variant"] for each in pairs}
    cases = sorted({case for load in run.sizes for _, case in run.records[load]})
    for each in schedule["ranges"]:
        within = [load for load in run.sizes if each["first"] <= batch(run, load) <= each["last"]]
        out = {k for k in arms if any(failed(run, load, arms[k], cases) for load in within)}
        rivals = [
            k
            for k in sorted(arms)
            if k not in {each["k"], *out} and not faster(run, arms[each["k"]], arms[k], cases, within)
        ]
        name = f"k={each['k']} from {each['first']} to {each['last']}"
        check.same(f"{name} variant", each["variant"], arms[each["k"]])
        check.same(f"{name} rivals", each["rivals"], rivals)
        check.same(f"{name} failed", each["failed"], sorted(out - {each["k"]}))


def batch(run: Run, load: str) -> int:
    return round(run.sizes[load] * run.served(load))


def faster(run: Run, arm: str, rival: str, cases: list[str], within: list[str]) -> bool:
    """Whether the interval of the arm over the rival is above 1 at each of the loads."""
    loads = [load for load in run.sizes if not any(failed(run, load, name, cases) for name in (arm, rival))]
    noise = run.noise(rival, arm, cases, loads)

    def at(load: str) -> bool:
        if load not in loads or run.doubtful(load, rival, arm, cases):
            return False
        return raw.bounds(*run.whole_gain(load, rival, arm, cases, noise))[1] > 1

    return bool(within) and all(map(at, within))


def check_server(check: raw.Check, run: Run) -> None:
    """The loads that the sentence names, and their ratios. No other sentence, and no sentence without them."""
    told = {(arm, what): (loads, ratios) for loads, what, arm, ratios in SERVER.findall(run.report["answer"])}
    decision = run.report["decision"]
    roots = {each["variant"]: each["root"] for each in run.report["chains"]}
    about = decision["variant"], roots.get(decision["variant"], decision["baseline"]), "all"
    own = [each for each in run.report["curve"] if (each["variant"], each["baseline"], each["group"]) == about]
    found = {key: value for curve in own for key, value in of_server(run, curve).items()}
    check.same("arms of which the answer says that the server does not gain", sorted(told), sorted(found))
    for key in told.keys() & found.keys():
        check.same(f"{key} loads", told[key][0], ", ".join(f"{run.sizes[load]:g}" for load in found[key]))
        shown = re.findall(r"[\d.]+", told[key][1])
        check.same(f"{key} ratios", len(shown), len(found[key]))
        for figure, ratio in zip(shown, found[key].values(), strict=False):
            raw.shows(check, f"{key} ratio", figure, [ratio])


def of_server(run: Run, curve: dict[str, Any]) -> dict[tuple[str, str], dict[str, float]]:
    """(Arm, what a request is) -> load -> tokens a second over the baseline's, where they say opposite things."""
    base, arm, cases = curve["baseline"], curve["variant"], curve["cases"]
    loads = [load for load in run.sizes if not any(failed(run, load, name, cases) for name in (base, arm))]
    noise = run.noise(base, arm, cases, loads)
    found: dict[tuple[str, str], dict[str, float]] = {}
    decided = {
        each["load"]: each["verdict"]
        for each in run.report["decision"]["findings"]
        if (each["variant"], each["baseline"], each["group"]) == (arm, base, "all")
    }
    for load in loads:
        ratio, low, high = raw.bounds(*run.whole_gain(load, base, arm, cases, noise))
        before, after = (run.arm(load, name, cases)["output_throughput"] for name in (base, arm))
        if run.doubtful(load, base, arm, cases) or not before or not after:
            continue
        server = after / before
        if low > 1 and decided[load] == "pays" and server * high < ratio:
            found.setdefault((arm, "faster"), {})[load] = server
        if high < 1 and decided[load] == "costs" and server * low > ratio:
            found.setdefault((arm, "slower"), {})[load] = server
    return found


def recompute(folder: Path) -> raw.Check:
    """Check k by load and the server's sentence of a run's folder."""
    check, run = raw.Check(), Run(folder)
    for schedule in run.report["schedule"]:
        check_schedule(check, run, schedule)
    check_server(check, run)
    return check


if __name__ == "__main__":
    raw.main(recompute(Path(sys.argv[1])))
