"""Finds the comparison for the report commands: in a run's folder, a report.json, or the bucket by a run id."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

from specdecode import s3_keys
from specdecode.analysis import Comparison
from specdecode.analysis.results.comparison import OtherVersion, read_report
from specdecode.aws import NoRegion
from specdecode.cli.output import EXIT_ENVIRONMENT, EXIT_FAILED, complain, stop_with
from specdecode.cli.report_recorded import REPORT, compared_anew
from specdecode.cli.runs_deployment import Deployment
from specdecode.experiment import Experiment, load, preset_names
from specdecode.untrusted import Unreadable, read_file


def find(run: str | None, *, deployment: Deployment, price: float | None = None) -> Comparison:
    """The comparison of `run`, or of the newest run; without a region that is the newest of `results/`.

    A folder with raw files and experiment.yaml but without report.json is compared again (`price`: $ per node-hour).
    """
    if run is None:
        try:
            return _of_bucket(deployment.execution(None).run_id, deployment, price)
        except NoRegion as error:
            return _from_path(_newest_here(error), price)
    return find_each([run], deployment=deployment, price=price)[0]


def _newest_here(error: NoRegion) -> Path:
    """The folder of `results/` whose report is the newest. Ends the command if there is none."""
    found = sorted(Path("results").glob(f"*/{REPORT}"), key=lambda file: file.stat().st_mtime)
    if not found:
        raise stop_with(
            f"no results/*/{REPORT} here: name a run. To look for runs of the bucket: {error}", EXIT_ENVIRONMENT
        )
    complain(f"the newest here: {found[-1].parent}")
    return found[-1].parent


def find_each(runs: Sequence[str], *, deployment: Deployment, price: float | None = None) -> list[Comparison]:
    """As `find`, for several runs. One message names all that were not found."""
    not_here = [run for run in runs if not Path(run).exists()]
    if paths := [run for run in not_here if "/" in run or run.endswith(".json")]:
        raise stop_with(f"{', '.join(paths)}: no such file or folder")
    try:
        ids = {run: deployment.execution(run).run_id for run in not_here}
    except typer.Exit:
        complain(f"(and {', '.join(not_here)}: no file or folder here)")
        raise
    except NoRegion as error:
        why = f"{', '.join(not_here)}: no such file or folder here. To look for runs of the bucket: {error}"
        raise stop_with(why) from None
    return [_of_bucket(ids[run], deployment, price) if run in ids else _from_path(Path(run), price) for run in runs]


def _of_bucket(run_id: str, deployment: Deployment, price: float | None) -> Comparison:
    data = deployment.store.read(s3_keys.run_key(run_id, REPORT))
    if data is None:
        raise stop_with(
            f"{run_id} has no report yet: `specdecode status {run_id}` says how far it is, "
            f"`specdecode diagnose {run_id}` why it failed",
            EXIT_FAILED,
        )
    at = deployment.store.url(s3_keys.run_key(run_id, REPORT))
    try:
        return _unpriced(read_report(data), at, price)
    except Unreadable as error:
        raise stop_with(f"{at}: {error}") from None


def _unpriced(found: Comparison, at: object, price: float | None) -> Comparison:
    """`found`, a report that was read. Ends the command if a price is given: its costs are in it already."""
    if price is not None:
        raise stop_with(f"{at} is shown with the price it was made with: --price is for a folder without {REPORT}")
    return found


def find_all(place: Path | Deployment) -> list[Comparison]:
    """Every report.json below a folder, or in a bucket, each run once. A file that is no report is named on stderr and
    left out.
    """
    found: list[Comparison] = []
    for at in map(str, sorted(place.rglob(REPORT)) if isinstance(place, Path) else place.store.folders("runs/")):
        try:
            data = read_file(Path(at)) if isinstance(place, Path) else place.store.read(s3_keys.run_key(at, REPORT))
            found += [] if data is None else [read_report(data)]
        except Unreadable as error:
            complain(f"left out {at}: {error}")
    return once(found)


def once(runs: Iterable[Comparison]) -> list[Comparison]:
    """Each run once: twice it would pass for more evidence than it is. What is left out is told on stderr."""
    kept: dict[str, Comparison] = {}
    for run in runs:
        if kept.setdefault(run.run_id, run) is not run:
            complain(f"{run.run_id} is there twice: it counts once")
    return list(kept.values())


def _from_path(path: Path, price: float | None) -> Comparison:
    file = path / REPORT if path.is_dir() else path
    if not file.exists():
        return compared_anew(path, price)
    try:
        return _unpriced(read_report(read_file(file)), file, price)
    except OtherVersion as error:
        if not (file.parent / "raw").is_dir():
            raise stop_with(f"{file}: {error}") from None
        complain(f"{file} is of another version: compared anew from raw/ (--price gives its costs)")
        return compared_anew(file.parent, price)
    except Unreadable as error:
        raise stop_with(f"{file}: {error}") from None


def preset_of(reference: str) -> Experiment | None:
    """The experiment of a preset's name or a YAML file. None if `reference` is neither."""
    if reference not in preset_names() and Path(reference).suffix not in {".yaml", ".yml"}:
        return None
    return load(reference)
