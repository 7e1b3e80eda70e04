"""How often the forecast of a rehearsal's speed-up holds, and how wide its range is.

    python benchmarks/forecast_rehearsals.py add FOLDER…     note what finished rehearsals measured
    python benchmarks/forecast_rehearsals.py                 forecast each from the others, and judge

A try is one type of prompts in one arm of one rehearsal. Its forecast knows the published evidence, the steps of the
other rehearsals, and tokens per step, which a forecast tells nearly exactly; it does not know this rehearsal's times.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from specdecode.analysis import Comparison
from specdecode.analysis.advice.learned import rows_of
from specdecode.analysis.advice.payoff import OF_TYPE, SURE
from specdecode.speculation.step_cost import StepCost, of_rows, published

RESULTS = Path(__file__).parent / "results" / "forecast_rehearsals.json"


def noted(comparison: Comparison) -> dict[str, Any]:
    """What a rehearsal measured: the rows that it adds to the evidence, and each type's figures."""
    types = []
    for pair in comparison.pairs:
        spec = comparison.experiment.variant(pair.variant).speculation
        for case in pair.cases:
            figures = {one.metric: one.ratio for one in case.speedups}
            if spec and figures.keys() >= {"tokens_per_step", "time_per_output_token"}:
                found = (figures["tokens_per_step"], figures["time_per_output_token"])
                types.append([case.case, spec.num_speculative_tokens, *(round(value, 4) for value in found)])
    rows = [row.model_dump(mode="json", exclude_defaults=True) for row in rows_of(comparison)]
    return {"run": comparison.run_id, "rows": rows, "types": types}


def tries(rehearsals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The forecast of every type, and whether it holds."""
    elsewhere = [row for row in published() if not row.engine.startswith("rehearsal")]
    found = []
    for one in rehearsals:
        own = [StepCost.model_validate(row) for row in one["rows"]]
        others = [StepCost.model_validate(row) for other in rehearsals if other is not one for row in other["rows"]]
        card = of_rows([*elsewhere, *(row for row in others if row.engine == own[0].engine)])
        for case, k, tokens, speedup in one["types"]:
            ((mean, deviation),) = card.predict([own[0].arm._replace(k=k)])
            step = 1.0 + math.exp(mean)
            error = math.hypot((step - 1.0) / step * deviation, OF_TYPE)
            off = math.log(speedup * step / tokens)
            found.append(
                {
                    "run": one["run"],
                    "case": case,
                    "k": k,
                    "forecast": round(tokens / step, 3),
                    "measured": speedup,
                    "width": round(math.exp(SURE * error), 3),
                    "holds": abs(off) <= SURE * error,
                }
            )
    return found


def main() -> None:
    known = json.loads(RESULTS.read_text())["rehearsals"] if RESULTS.exists() else []
    if sys.argv[1:2] == ["add"]:
        for folder in sys.argv[2:]:
            one = noted(Comparison.model_validate_json((Path(folder) / "report.json").read_bytes()))
            known = [each for each in known if each["run"] != one["run"]] + [one]
    found = tries(known)
    said = {
        "tries": len(found),
        "hold": sum(each["holds"] for each in found) / len(found),
        "median_width": statistics.median(each["width"] for each in found),
        "median_off": round(statistics.median(abs(math.log(e["measured"] / e["forecast"])) for e in found), 3),
    }
    RESULTS.write_text(json.dumps({**said, "forecasts": found, "rehearsals": known}, indent=1) + "\n")
    print(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
