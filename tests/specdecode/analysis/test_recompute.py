"""Every number of a report, recomputed from its raw files by a script that shares nothing with the project."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from specdecode.analysis import compare

from tests.specdecode.analysis import recompute
from tests.specdecode.analysis.simulate import context, experiment, request, run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run as it lies in the bucket: raw files and report.json; two rounds, three k, some failures."""
    import random

    tested = experiment(ks=(3, 7, 11), rounds=2)
    records = list(run(tested, seed=4))
    records.append(request(variant="base", case="sonnet", index=99, rng=random.Random(1), failed=True, sent_s=1e6))
    records.append(
        request(variant="base", case="sonnet", index=0, rng=random.Random(1)).model_copy(update={"warmup": True})
    )
    for record in records:
        path = tmp_path / "raw" / record.variant / f"{record.case}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as out:
            out.write(record.model_dump_json() + "\n")
    (tmp_path / "report.json").write_text(
        compare(experiment=tested, records=records, context=context()).json_document()
    )
    return tmp_path


def test_every_number_is_recomputed(folder: Path) -> None:
    check = recompute.recompute(folder)
    assert check.wrong == []
    assert check.checked > 900


def test_the_script_notices_a_wrong_number(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_text())
    report["pairs"][0]["cases"][0]["speedups"][0]["low"] *= 1.001
    report["arms"][0]["metrics"]["ttft"]["p90"] += 1e-5
    report["arms"][1]["cost_per_million"] *= 2
    (folder / "report.json").write_text(json.dumps(report))
    assert len(recompute.recompute(folder).wrong) == 3


def test_the_script_stands_alone(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", recompute.__file__, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all equal" in done.stdout
