"""A run's folder, from the bucket to results/<run id>/, and its answer for the terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specdecode import s3_keys
from specdecode.analysis import Comparison
from specdecode.analysis.advice.payoff import Beside, beside
from specdecode.analysis.report import all_of, render_terminal


def download(run_id: str, *, s3: Any, bucket: str, to: Path) -> Path:
    """Copy every object of the run. Returns the folder."""
    prefix, folder = s3_keys.run_prefix(run_id), to / run_id
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", []):
            target = folder / item["Key"].removeprefix(prefix)
            target.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, item["Key"], str(target))
    return folder


def table(folder: Path, *, colour: bool, width: int) -> str:
    """The comparison in a run's folder, for the terminal."""
    comparison = _comparison(folder)
    each = _each(beside(comparison.experiment, comparison.pairs, comparison.arms))
    heading = ["\nTokens per step:\n"] if each else []
    shown = render_terminal(comparison, colour=colour, width=width, brief=True, more=all_of(str(folder)))
    return "".join([shown, *heading, *each])


def beside_measured(folder: Path, measured: Path) -> str:
    """The forecast of the run in `folder` beside what the run in `measured`, whose answers it read, has measured."""
    told, known = _comparison(folder).experiment.forecast, _comparison(measured)
    experiment = known.experiment.model_copy(update={"forecast": told})
    return "".join(["Tokens per step, from its answers:\n", *_each(beside(experiment, known.pairs, known.arms))])


def _comparison(folder: Path) -> Comparison:
    return Comparison.model_validate_json((folder / "report.json").read_bytes())


def _each(told: Sequence[Beside]) -> list[str]:
    return [f"  {one.case}: forecast {one.told:.3f}, {one.variant} measured {one.measured:.3f}\n" for one in told]
