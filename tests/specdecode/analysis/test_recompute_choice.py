"""k by load and the sentence about the whole server, recomputed by a script that shares nothing with the project."""

import json
from pathlib import Path
from typing import Any

import pytest
from specdecode.analysis import compare

from tests.specdecode.analysis import recompute_choice
from tests.specdecode.analysis.simulate import context, write_raw
from tests.specdecode.analysis.simulate_load import Server, loads, run

SERVERS = {
    "base": Server(),
    "sd-k2": Server(base_s=0.023, per_sequence_s=0.0012, k=2, acceptance=0.8),
    "sd-k6": Server(base_s=0.027, per_sequence_s=0.0030, k=6, acceptance=0.8),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every arm's server stood idle in the middle of the smallest load; half of k=6 failed at 8."""
    tested = loads((1, 4, 8, 16, 32), ks=(2, 6), requests=32)
    records = []
    for record in run(tested, SERVERS, seed=5):
        idle = 1000.0 if record.variant != "base" and record.level == "c1" and record.index >= 16 else 0.0
        lost = record.variant == "sd-k6" and record.level == "c8" and record.index % 2 == 0
        error = {"kind": "timeout", "message": "too late", "http_status": None}
        written = record.model_dump(mode="json") | {"sent_s": record.sent_s + idle}
        records.append(type(record).model_validate(written | ({"error": error, "chunks": []} if lost else {})))
    place = tmp_path_factory.mktemp("run")
    write_raw(place, records)
    found = compare(experiment=tested, records=records, context=context())
    (place / "report.json").write_text(found.json_document())
    return place


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def test_rivals_and_the_sentence_about_the_server_are_recomputed(folder: Path) -> None:
    check = recompute_choice.recompute(folder)
    assert check.wrong == []
    (schedule,) = report(folder)["schedule"]
    assert any(each["rivals"] for each in schedule["ranges"]) and any(each["failed"] for each in schedule["ranges"])
    assert "At 1 at a time a request is faster, but the server as a whole writes fewer" in report(folder)["answer"]


def test_a_wrong_rival_and_a_wrong_ratio_are_noticed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").symlink_to(folder / "raw")
    told = report(folder)
    told["schedule"][0]["ranges"][0]["rivals"] = [99]
    told["answer"] = told["answer"].replace("a request is faster, but", "a request is faster. But")
    (tmp_path / "report.json").write_text(json.dumps(told))
    wrong = recompute_choice.recompute(tmp_path).wrong
    assert len(wrong) == 2 and "rivals" in wrong[0] and "server does not gain" in wrong[1]
