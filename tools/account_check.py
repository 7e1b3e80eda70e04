"""Checks that a run of `account-check` showed that the account works: `python -m tools.account_check report.json`.

Exit status: 0 it did, 1 it did not (each missing thing is a line).
"""

import json
import sys
from pathlib import Path
from typing import Any


def problems(report: dict[str, Any]) -> list[str]:
    """What is missing in the report (report.json) of a check of an account. Empty if all worked."""
    found = [f"a step failed: {failure}" for failure in report["context"]["failures"]]
    asked = {variant["name"] for variant in report["experiment"]["variants"]}
    cases = {case["name"] for case in report["experiment"]["workload"]["cases"]}
    seen = {(arm["variant"], arm["case"]): arm for arm in report["arms"]}
    for variant in sorted(asked):
        for case in sorted(cases):
            arm = seen.get((variant, case))
            if arm is None or not arm["completed"] or arm["failed"]:
                found.append(f"{variant}, {case}: {arm['failed'] if arm else 'all'} requests failed or were not made")
    counted = {item["variant"] for item in report["context"]["counters"] if item["drafts"]}
    speculating = {item["name"] for item in report["experiment"]["variants"] if item["speculation"]}
    found += [f"{name}: its server counted no draft" for name in sorted(speculating - counted)]
    if not (report["cost"] or {}).get("node_hours", 0) > 0:
        found.append("no time of a node was counted")
    return found


def main(given: list[str]) -> int:
    """Print what is missing."""
    found = problems(json.loads(Path(given[0]).read_text("utf-8")))
    print(
        "\n".join(found) or "the account works: all arms were served, measured and compared, and the node was counted"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
